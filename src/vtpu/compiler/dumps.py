"""What libtpu tells of a compile only in the files that it dumps and in its log."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtpu.reading.buffer_assignment import find_assignment, hbm_temporaries, read_assignment
from vtpu.reading.compile_options import dump_folder, with_dump
from vtpu.reading.wire import WireError

_ASSIGNED = "*.after_optimizations.hlo.pb"
_UNIT_BYTES = 16 << 10  # libtpu 0.0.52 reports, and so reserves, temporaries in units of 16 KiB
_LONGEST_LOG_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Dump:
    """A compile's dump. `options`: what to compile with, so that it is made."""

    options: bytes
    folder: Path
    began: float
    log_start: int

    def module(self) -> bytes:
        """The `HloProto` with the buffer assignment; empty when nothing was dumped."""
        files = [f for f in self.folder.glob(_ASSIGNED) if f.stat().st_mtime >= self.began]
        if not files:
            return b""
        return max(files, key=lambda file: file.stat().st_mtime).read_bytes()

    def assignment(self) -> bytes:
        """The `BufferAssignmentProto`; empty when nothing was dumped or the disk was full."""
        try:
            return bytes(find_assignment(self.module()))
        except WireError:
            return b""

    def log(self) -> bytes:
        """What libtpu printed since the compile began."""
        size = os.fstat(2).st_size
        start = max(self.log_start, size - _LONGEST_LOG_BYTES)
        return os.pread(2, size - start, start)


def temp_bytes(assignment: bytes) -> int | None:
    """Bytes of HBM that a program reserves for temporaries; None when nothing was assigned."""
    if not assignment:
        return None
    size = hbm_temporaries(read_assignment(assignment))
    return -(-size // _UNIT_BYTES) * _UNIT_BYTES


@contextmanager
def dumping(options: bytes, folder: Path) -> Generator[Dump]:
    """A compile that dumps to `folder`, which goes afterwards, or where the user wants it."""
    began = time.time() - 1  # clocks of file systems are coarse
    log_start = os.fstat(2).st_size  # the parent made the log a file
    if users_own := dump_folder(options):
        yield Dump(options, Path(users_own), began, log_start)
        return
    try:
        yield Dump(with_dump(options, str(folder)), folder, began, log_start)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
