"""Keeps what a search found, so that a change can be applied without searching again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from vtpu.changes.outcome import FixOutcome
from vtpu.changes.target import FixTarget
from vtpu.errors import UsageError

_OUTCOME = TypeAdapter(FixOutcome)


def keep_outcome(outcome: FixOutcome, folder: Path) -> None:
    """Writes an outcome where `find_outcome` looks.

    Raises:
        UsageError: it cannot be written.
    """
    path = _path(outcome.target, outcome.slice, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_OUTCOME.dump_json(outcome))
    except OSError as error:
        raise UsageError(f"what was found cannot be kept in {path}: {error.strerror}") from error


def find_outcome(target: FixTarget, slice_name: str, folder: Path) -> FixOutcome | None:
    """The last outcome for a target on a slice; None where there is none, or of another release."""
    path = _path(target, slice_name, folder)
    try:
        return _OUTCOME.validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _path(target: FixTarget, slice_name: str, folder: Path) -> Path:
    said = repr((target.folder, target.name, target.script_arguments, target.arguments, slice_name))
    return folder / "fixes" / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"
