"""Claiming a file for a recording: no run overwrites another's, and an older file is kept.

A run may have several processes, one after the other; none overwrites what another of its run wrote.

The claim is an advisory lock on the file itself, which ends with the process; nothing stays behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

_MOST_RUNS_AT_ONCE = 1000


def claim_file(out: Path, run_began: float | None = None) -> tuple[Path, BinaryIO]:
    """A new file at `out`, or beside it when another run writes there, and its path.

    An older file is kept as `out~`, but stays where it is when it is newer than `run_began` (Unix
    time; by default when the run that writes at `out` began): a process of the same run wrote it.

    Raises:
        OSError: no file can be made there.
    """
    with _alone_in(out.parent):
        for attempt in range(1, _MOST_RUNS_AT_ONCE):
            path = out if attempt == 1 else out.with_stem(f"{out.stem}-{attempt}")
            if path.exists():
                if not path.is_file():
                    raise OSError(errno.EEXIST, "what is there is no file", str(path))
                if _is_claimed(path):
                    run_began = _when_began(path) if run_began is None else run_began
                    continue
                if run_began is not None and path.stat().st_mtime >= run_began:
                    continue
                path.replace(backup_of(path))
            file = path.open("x+b", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return path, file
    raise OSError(errno.EBUSY, "too many runs write there at once", str(out))


def _when_began(path: Path) -> float:
    """When the run that writes at `path` began; of an empty file, when it was claimed."""
    from vtpu.recording.file import read_run  # with numpy, which is slow to import

    run = read_run(path)
    return run.started_unix_s if run else path.stat().st_mtime


def backup_of(path: Path) -> Path:
    """Where an older file is kept."""
    return path.with_name(path.name + "~")


def release_unused(path: Path) -> None:
    """Takes back a claim whose file stayed empty or is gone: the older file stands there again."""
    with _alone_in(path.parent):
        if path.exists() and path.stat().st_size > 0:
            return
        path.unlink(missing_ok=True)
        if backup_of(path).exists():
            backup_of(path).replace(path)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Generator[None, None, None]:
    """Lets one run after the other look and claim, by the folder's own lock where it has one."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_claimed(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
