"""A change is written into the file that it was tried for, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtpu.changes.change import Change, Numerics
from vtpu.changes.edits import Replace
from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Attempt, Figures, FixOutcome, Verdict
from vtpu.changes.target import FixTarget
from vtpu.errors import UsageError
from vtpu.fixing.applying import edited_files, write_files
from vtpu.fixing.store import find_outcome, keep_outcome

TEXT = "x = 1\n# ä\ny = 2\n"


def outcome_for(folder: Path) -> FixOutcome:
    name = str(folder / "prog.py")
    edit = Replace(file=name, begin=4, end=5, text="7")
    change = Change(kind="test", title="seven", numerics=Numerics.DIFFERENT, edits=(edit,))
    nothing = Change(
        kind="other", title="elsewhere", numerics=Numerics.IDENTICAL, advice="Write it."
    )
    attempts = tuple(
        Attempt(number=n, changes=(c,), verdict=Verdict.HELPED, figures=Figures(fits=True))
        for n, c in enumerate((change, nothing), 1)
    )
    return FixOutcome(
        target=FixTarget(name="prog.py", folder=str(folder)),
        slice="v5e:1x1",
        goal=Goal.MEMORY,
        baseline=Figures(fits=True),
        attempts=attempts,
        texts={name: TEXT},
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_file_is_written_and_kept_as_it_was(tmp_path: Path, ends: str) -> None:
    whole = TEXT.replace("\n", ends).encode()
    (tmp_path / "prog.py").write_bytes(whole)
    outcome = outcome_for(tmp_path)
    backups = write_files(edited_files(outcome, outcome.attempts[0]))
    assert (tmp_path / "prog.py").read_bytes() == whole.replace(b"1", b"7", 1)
    assert [b.read_bytes() for b in backups] == [whole]


def test_a_backup_never_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(TEXT, encoding="utf-8")
    (tmp_path / "prog.py~").write_text("precious", encoding="utf-8")
    outcome = outcome_for(tmp_path)
    backups = write_files(edited_files(outcome, outcome.attempts[0]))
    assert (tmp_path / "prog.py~").read_text(encoding="utf-8") == "precious"
    assert backups[0].read_text(encoding="utf-8") == TEXT


def test_an_encoding_that_the_file_names_is_kept(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\nx = '\u00e4'\n"
    path = tmp_path / "prog.py"
    path.write_bytes(text.encode("latin-1"))
    outcome = outcome_for(tmp_path)
    edit = Replace(file=str(path), begin=text.index("x"), end=text.index("x") + 1, text="z")
    change = Change(kind="t", title="t", numerics=Numerics.IDENTICAL, edits=(edit,))
    attempt = Attempt(number=1, changes=(change,), verdict=Verdict.HELPED)
    outcome.texts[str(path)] = text
    write_files(edited_files(outcome, attempt))
    assert path.read_bytes() == text.replace("x =", "z =").encode("latin-1")


def test_a_file_that_changed_since_is_refused(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(TEXT + "z = 3\n", encoding="utf-8")
    outcome = outcome_for(tmp_path)
    with pytest.raises(UsageError, match="has changed since"):
        edited_files(outcome, outcome.attempts[0])


def test_a_change_that_is_in_no_file_says_what_to_write(tmp_path: Path) -> None:
    outcome = outcome_for(tmp_path)
    with pytest.raises(UsageError, match="Write it"):
        edited_files(outcome, outcome.attempts[1])


def test_what_was_found_is_there_the_next_time(tmp_path: Path) -> None:
    outcome = outcome_for(tmp_path)
    keep_outcome(outcome, tmp_path)
    assert find_outcome(outcome.target, "v5e:1x1", tmp_path) == outcome
    assert find_outcome(outcome.target, "v5e:2x2", tmp_path) is None
