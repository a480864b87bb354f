"""Results of the compiler on disk, by the hash of what was asked, within a size limit.

A file per result: the CRC-32 of its bytes, then the bytes. Files are written beside and moved into place, so that two processes never see
half of one and no lock is needed; reading one marks it as used, and the least recently used go first
when the limit is passed. A cache that cannot be written only costs time: `problem` says why.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from time import time

_STALE_S = 3600.0
_CHECKSUM_BYTES = 4
DEFAULT_LIMIT_BYTES = 4 << 30


@dataclass(slots=True)
class ResultCache:
    """The cache in `folder`, of at most about `limit_bytes`."""

    folder: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    problem: str | None = None

    def read(self, kind: str, key: str) -> bytes | None:
        """The bytes stored under `key`; None when there are none, or damaged ones."""
        path = self._path(kind, key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        checksum, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
        if checksum != _checksum(data):
            return None
        with contextlib.suppress(OSError):  # a cache that may only be read is of use too
            os.utime(path)
        return data

    def write(self, kind: str, key: str, data: bytes) -> None:
        """Stores bytes under `key`; sets `problem` when it cannot."""
        path = self._path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_checksum(data) + data)
                Path(temporary).replace(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
                raise
            self._evict(len(data))
        except OSError as error:
            self.problem = f"the compile cache {self.folder} cannot be written: {error.strerror}"

    def append_line(self, name: str, line: str) -> None:
        """Adds a line to a small file of facts; lines of several processes do not mix."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / name).open("ab", buffering=0) as file:
                file.write(line.encode() + b"\n")
        except OSError as error:
            self.problem = f"the compile cache {self.folder} cannot be written: {error.strerror}"

    def read_lines(self, name: str) -> list[str]:
        """The whole lines of a file of facts."""
        try:
            text = (self.folder / name).read_text(errors="replace")
        except OSError:
            return []
        return text.split("\n")[:-1]

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def _evict(self, added: int) -> None:
        """Removes the least recently used files when the limit is passed.

        Looking at the whole folder costs time, so it happens by chance, in proportion to what was
        added, and then leaves a tenth of the limit free.
        """
        if not _is_due(added, self.limit_bytes):
            return
        entries = []
        for path in self.folder.glob("*/*/*"):
            with contextlib.suppress(OSError):
                entries.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in entries)
        goal = 0.9 * self.limit_bytes if total > self.limit_bytes else total
        for mtime, size, path in sorted(entries):
            abandoned = path.name.startswith(".new-") and time() - mtime > _STALE_S
            if total > goal or abandoned:
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little")


def _is_due(added: int, limit: int) -> bool:
    """True about once per twentieth of the limit that is written."""
    return int.from_bytes(os.urandom(4)) / 2**32 < 20 * added / max(limit, 1)
