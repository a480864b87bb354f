"""Writes a change into the user's files, with a backup beside each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vtpu.changes.edits import render_files
from vtpu.changes.outcome import Attempt, FixOutcome
from vtpu.errors import UsageError


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file that is to be written: where, its text before and after."""

    path: Path
    before: str
    after: str


def edited_files(outcome: FixOutcome, attempt: Attempt) -> list[EditedFile]:
    """What a change would write.

    Raises:
        UsageError: it edits no file, or one that is not as it was when the change was tried.
    """
    edits = [e for c in attempt.changes for e in c.edits]
    if not edits:
        advice = " ".join(c.advice for c in attempt.changes if c.advice)
        raise UsageError(
            f"change {attempt.number} ({attempt.title}) edits no file that vtpu reads. {advice}".strip()
        )
    after = render_files(outcome.texts, edits)
    files = [EditedFile(Path(outcome.target.folder, n), outcome.texts[n], t) for n, t in after.items()]  # fmt: skip
    for file in files:
        if _read(file.path).replace("\r\n", "\n") != file.before:
            raise UsageError(
                f"{file.path} has changed since the change was tried. Run `vtpu fix` again."
            )
    return files


def write_files(files: list[EditedFile]) -> list[Path]:
    """Writes the files, with line ends as they had. The backups, `train.py~`, which it returns, hold them
    as they were; one that is there already is never replaced.

    Raises:
        UsageError: a file cannot be written.
    """
    backups: list[Path] = []
    try:
        for file in files:
            whole = file.path.read_bytes()
            backup = _free_name(file.path)
            backup.write_bytes(whole)
            backups.append(backup)
            text = file.after.replace("\n", "\r\n") if b"\r\n" in whole else file.after
            file.path.write_bytes(text.encode(_encoding(file.path)))
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error
    return backups


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(_encoding(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _encoding(path: Path) -> str:
    """The encoding that a Python file says it has."""
    import tokenize

    with path.open("rb") as file:
        return tokenize.detect_encoding(file.readline)[0]


def _free_name(path: Path) -> Path:
    backup = path.with_name(path.name + "~")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.~{number}~")
    return backup
