"""What libtpu tells of a compile only in the files that it dumps."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtpu.reading.buffer_assignment import hbm_temporaries
from vtpu.reading.compile_options import dump_folder, with_dump
from vtpu.reading.wire import WireError

_ASSIGNED = "*.after_optimizations.hlo.pb"
_UNIT_BYTES = 16 << 10  # libtpu 0.0.52 reports, and so reserves, temporaries in units of 16 KiB


@dataclass(frozen=True, slots=True)
class Dump:
    """A compile's dump. `options`: what to compile with, so that it is made."""

    options: bytes
    folder: Path
    began: float

    def hbm_temp_bytes(self) -> int | None:
        """Bytes of HBM that the program reserves for temporaries; None when nothing was dumped."""
        files = [f for f in self.folder.glob(_ASSIGNED) if f.stat().st_mtime >= self.began]
        if not files:
            return None
        newest = max(files, key=lambda file: file.stat().st_mtime)
        try:
            size = hbm_temporaries(newest.read_bytes())
        except WireError:  # the disk was full
            return None
        return size if size is None else -(-size // _UNIT_BYTES) * _UNIT_BYTES


@contextmanager
def dumping(options: bytes, folder: Path) -> Generator[Dump]:
    """A compile that dumps to `folder`, which goes afterwards, or where the user wants it."""
    began = time.time() - 1  # clocks of file systems are coarse
    if users_own := dump_folder(options):
        yield Dump(options, Path(users_own), began)
        return
    try:
        yield Dump(with_dump(options, str(folder)), folder, began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
