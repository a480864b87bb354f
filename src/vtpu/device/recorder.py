"""Writes what the native core saw into the recording, while the program runs.

Nothing that goes wrong with the file may stop the program: the first error ends the writing and is
kept as a problem for the report.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np

from vtpu.device import _core
from vtpu.recording.claim import claim_file
from vtpu.recording.events import EVENT_DTYPE
from vtpu.recording.file import RecordingWriter
from vtpu.recording.recording import DeviceMemory, EndRecord, ProgramRecord, RunRecord

_CORE_DTYPE = np.dtype(
    {
        "names": [name for name, _, _ in _core.event_fields()],
        "offsets": [offset for _, offset, _ in _core.event_fields()],
        "formats": [kind for _, _, kind in _core.event_fields()],
        "itemsize": _core.event_bytes(),
    }
)


class Recorder:
    """The recording of this process. Forked children do not write into it.

    `is_claimed`: somebody made the empty file `out` for this process.
    """

    def __init__(self, out: Path | None, run: RunRecord, *, is_claimed: bool = False) -> None:
        self.path: Path | None = None
        self.problems: list[str] = []
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._began = time.monotonic()
        self._stacks = self._shapes = 0
        self._ended = False
        self._file = self._open(out, is_claimed)
        self._writer = RecordingWriter(self._file, run)

    def _open(self, out: Path | None, is_claimed: bool) -> BinaryIO:
        if out is not None:
            try:
                if is_claimed:
                    self.path, file = out, open(out, "r+b")  # noqa: SIM115
                else:
                    self.path, file = claim_file(out)
                return file
            except OSError as error:
                self.problem(f"the recording cannot be written to {out}: {error.strerror}")
        return tempfile.TemporaryFile(prefix="vtpu-", suffix=".vtpu")  # noqa: SIM115

    def problem(self, text: str) -> None:
        """Notes what went wrong, once."""
        if text not in self.problems:
            self.problems.append(text)

    def program(self, program: ProgramRecord) -> None:
        """Writes a program down, and what happened before."""
        with self._writing():
            self._flush()
            self._writer.program(program)

    def flush(self) -> None:
        """Writes down what happened since the last time."""
        with self._writing():
            self._flush()

    def end(self, client: int, compiler_starts: int) -> None:
        """Writes the end; later events are not recorded."""
        with self._writing():
            self._flush()
            memory = tuple(
                DeviceMemory(**dict(zip(DeviceMemory.__slots__, row, strict=True)))
                for row in _core.memory_state(client)
            )
            self._writer.end(
                EndRecord(
                    wall_s=time.monotonic() - self._began,
                    memory=memory,
                    dropped_events=_core.dropped_events(),
                    compiler_starts=compiler_starts,
                    problems=tuple(self.problems),
                )
            )
        self._ended = True

    def read_back(self) -> bytes:
        """The whole file so far."""
        with self._lock:
            at = self._file.tell()
            self._file.seek(0)
            data = self._file.read()
            self._file.seek(at)
            return data

    @contextlib.contextmanager
    def _writing(self):  # type: ignore[no-untyped-def]
        """Holds the file; an error of the disk ends all writing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._ended:
                return
            try:
                yield
            except OSError as error:
                self.problem(f"the recording stops early: {error.strerror}")
                self._ended = True

    def _flush(self) -> None:
        raw = _core.drain_events()  # first: what it refers to is then known
        stacks = _core.stacks_after(self._stacks)
        shapes = _core.shapes_from(self._shapes)
        self._stacks += len(stacks)
        self._shapes += len(shapes)
        self._writer.stacks(stacks)
        self._writer.shapes(shapes)
        events = np.frombuffer(raw, _CORE_DTYPE).astype(EVENT_DTYPE)
        self._writer.events(events)
