"""Claiming a file for a recording: no run overwrites another's, and an older file is kept.

The claim is an advisory lock on the file itself, which ends with the process; nothing stays behind.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import BinaryIO

_MOST_RUNS_AT_ONCE = 1000


def claim_file(out: Path) -> tuple[Path, BinaryIO]:
    """A new file at `out`, or beside it when another run writes there, and its path.

    An older file is kept as `out~`.

    Raises:
        OSError: no file can be made there.
    """
    for attempt in range(1, _MOST_RUNS_AT_ONCE):
        path = out if attempt == 1 else out.with_stem(f"{out.stem}-{attempt}")
        if path.exists():
            if _is_claimed(path):
                continue
            path.replace(backup_of(path))
        try:
            file = path.open("x+b")
        except FileExistsError:  # another run was faster
            continue
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path, file
    raise OSError(0, "too many runs write there at once", str(out))


def backup_of(path: Path) -> Path:
    """Where an older file is kept."""
    return path.with_name(path.name + "~")


def release_unused(path: Path) -> None:
    """Takes back a claim whose file stayed empty: the older file stands in its place again."""
    if path.exists() and path.stat().st_size == 0:
        path.unlink()
        if backup_of(path).exists():
            backup_of(path).replace(path)


def _is_claimed(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
