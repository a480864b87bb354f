"""Which line keeps an array is read from the user's source."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from vtpu.analysis.source.files import SourceFiles
from vtpu.analysis.source.keepers import Keeper, assigned_name, find_keeper
from vtpu.analysis.source_lines import SourceLine

STEP = "step("


def keeper_in(folder: Path, text: str, result: tuple[int, int] | None = None) -> Keeper | None:
    """What keeps what the lines make that call `step`, innermost first."""
    source = dedent(text)
    (folder / "train.py").write_text(source)
    numbers = [n for n, line in enumerate(source.split("\n"), 1) if "# made" in line]
    frames = [SourceLine("train.py", number, "f") for number in numbers]
    return find_keeper(SourceFiles(str(folder)), frames, result)


KEPT = {
    "appended": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(extra)  # kept
        """,
    "appended in a container": """
        for batch in data:
            state, metrics = step(state, batch)  # made
            record = {"metrics": metrics, "step": i}
            history.append(record)  # kept
        """,
    "appended as it is made": """
        for batch in data:
            history.append(step(x, batch))  # made  # kept
        """,
    "under a key": """
        for i, batch in enumerate(data):
            x, extra = step(x, batch)  # made
            seen[i] = extra  # kept
        """,
    "in a list under a key": """
        for batch in data:
            x, extra = step(x, batch)  # made
            seen.setdefault("extra", []).append(extra)  # kept
        """,
    "added to a list": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history += [extra]  # kept
        """,
    "in a new list each time": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history = [*history, extra]  # kept
        """,
    "an attribute": """
        class Trainer:
            def train(self):
                for batch in self.data:
                    self.x, extra = self.step(self.x, batch)  # made
                    self.history.append(extra)  # kept
        """,
    "by the caller": """
        def train_step(x, batch):
            return step(x, batch)  # made

        for batch in data:
            x, extra = train_step(x, batch)  # made
            history.append(extra)  # kept
        """,
}


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_a_value_is_found(tmp_path: Path, case: str) -> None:
    text = KEPT[case]
    found = keeper_in(tmp_path, text, (1, 2))
    assert found is not None
    assert "# kept" in dedent(text).split("\n")[found.line.line - 1]
    assert found.container in ("history", "seen", "self.history")
    assert not found.is_bounded
    assert not found.is_gathered


NOT_KEPT = {
    "read by the host": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(float(extra))
        """,
    "copied to the host": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(np.asarray(extra))
        """,
    "another value": """
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(batch)
        """,
    "under one name": """
        for batch in data:
            x, extra = step(x, batch)  # made
            last["extra"] = extra
        """,
}


@pytest.mark.parametrize("case", NOT_KEPT)
def test_what_does_not_keep_a_value_is_no_keeper(tmp_path: Path, case: str) -> None:
    assert keeper_in(tmp_path, NOT_KEPT[case], (1, 2)) is None


BOUNDED = {
    "a deque": "history = deque(maxlen=8)",
    "a list of a size": "history = [None] * 8",
    "emptied": "if full: history.clear()",
    "shortened": "if full: del history[0]",
    "popped": "if full: history.pop(0)",
    "begun anew": """while True:
            history = []""",
}


@pytest.mark.parametrize("case", BOUNDED)
def test_a_container_that_does_not_grow_for_ever_is_bounded(tmp_path: Path, case: str) -> None:
    text = f"""
        {BOUNDED[case]}
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(extra)
        """
    found = keeper_in(tmp_path, text, (1, 2))
    assert found is not None
    assert found.is_bounded


def test_an_index_that_wraps_around_bounds(tmp_path: Path) -> None:
    text = """
        for i, batch in enumerate(data):
            x, extra = step(x, batch)  # made
            history[i % 8] = extra
        """
    found = keeper_in(tmp_path, text, (1, 2))
    assert found is not None
    assert found.is_bounded


def test_outputs_that_are_put_together_are_gathered(tmp_path: Path) -> None:
    text = """
        for batch in data:
            predictions.append(predict(params, batch))  # made
        result = jnp.concatenate(predictions)
        """
    found = keeper_in(tmp_path, text)
    assert found is not None
    assert found.is_gathered


def test_only_the_name_of_one_result_is_followed(tmp_path: Path) -> None:
    text = """
        for batch in data:
            x, extra = step(x, batch)  # made
            history.append(extra)
        """
    assert keeper_in(tmp_path, text, (1, 2)) is not None
    assert keeper_in(tmp_path, text, (0, 2)) is None
    assert keeper_in(tmp_path, text, None) is not None  # any of them


def test_a_file_that_is_not_there_has_no_keeper() -> None:
    assert find_keeper(SourceFiles("/nowhere"), [SourceLine("train.py", 1, "f")]) is None


@pytest.mark.parametrize(
    ("line", "result", "name"),
    [
        ("x, extra = step(x)", (1, 2), "extra"),
        ("x, extra = step(x)", None, None),
        ("params = init(key)", None, "params"),
        ("self.cache = init(key)", None, "self.cache"),
        ("print(step(x))", None, None),
        ("x, *rest = step(x)", (1, 2), None),
    ],
)
def test_a_value_has_the_name_that_its_line_gives(
    tmp_path: Path, line: str, result: tuple[int, int] | None, name: str | None
) -> None:
    (tmp_path / "train.py").write_text(line + "\n")
    files = SourceFiles(str(tmp_path))
    assert assigned_name(files, SourceLine("train.py", 1, "f"), result) == name
