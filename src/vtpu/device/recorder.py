"""Writes what the native core saw into the recording, while the program runs.

Nothing that goes wrong with the file may stop the program: the first error ends the writing and is
kept as a problem for the report.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import numpy as np

from vtpu.device import _core
from vtpu.recording.claim import claim_file, release_unused
from vtpu.recording.events import EVENT_DTYPE
from vtpu.recording.file import RecordingWriter
from vtpu.recording.recording import DeviceMemory, EndRecord, ProgramRecord, RunRecord
from vtpu.values.reasons import Reasons

_CORE_DTYPE = np.dtype(
    {
        "names": [name for name, _, _ in _core.event_fields()],
        "offsets": [offset for _, offset, _ in _core.event_fields()],
        "formats": [kind for _, _, kind in _core.event_fields()],
        "itemsize": _core.event_bytes(),
    }
)


class EventTap:
    """Takes a copy of every event from the moment it is opened until it is closed."""

    def __init__(self) -> None:
        self.batches: list[np.ndarray] = []


class Recorder:
    """The recording of this process. Forked children do not write into it.

    `programs` are the names of all programs and their devices, by number. `is_claimed`: somebody
    made the empty file `out` for this process.
    """

    def __init__(
        self, out: Path | None, run: RunRecord, reasons: Reasons, *, is_claimed: bool = False
    ) -> None:
        self.path: Path | None = None
        self.problems: list[str] = []
        self.programs: dict[int, tuple[str, tuple[int, ...]]] = {}
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._began = monotonic() - _core.now_ns() / 1e9  # as the events' clock
        self._stacks = self._shapes = self._whys = 0
        self.reasons = reasons
        self._taps: list[EventTap] = []
        self._is_writing = self._stops_early = False
        self._file = self._open(out, is_claimed)
        self._writer: RecordingWriter | None = self._begin(run, is_claimed)  # None: it ended

    def _begin(self, run: RunRecord, is_claimed: bool) -> RecordingWriter:
        try:
            return RecordingWriter(self._file, run)
        except OSError as error:  # not even this fits on the disk
            self.problem(f"the recording cannot be written to {self.path}: {error.strerror}")
            self._give_up_file(is_claimed)
            return RecordingWriter(self._file, run)

    def _give_up_file(self, is_claimed: bool) -> None:
        """Goes on in memory. Who made the file for us and would report learns it from its absence."""
        if self.path and is_claimed:
            sys.stderr.write(f"vtpu: {self.problems[-1]}\n")
            self.path.unlink(missing_ok=True)
        elif self.path:
            release_unused(self.path)
        self.path, self._file = None, io.BytesIO()

    def _open(self, out: Path | None, is_claimed: bool) -> BinaryIO:
        try:
            if out is not None:
                return self._open_at(out, is_claimed)
        except OSError as error:
            self.problem(f"the recording cannot be written to {out}: {error.strerror}")
        try:
            return tempfile.TemporaryFile(buffering=0, prefix="vtpu-", suffix=".vtpu")
        except OSError:  # no folder for temporary files
            return io.BytesIO()

    def _open_at(self, out: Path, is_claimed: bool) -> BinaryIO:
        if is_claimed:
            self.path, file = out, out.open("r+b", buffering=0)
        else:
            self.path, file = claim_file(out)
        return file

    def problem(self, text: str) -> None:
        """Notes what went wrong, once."""
        if text not in self.problems:
            self.problems.append(text)

    def program(self, program: ProgramRecord) -> None:
        """Writes a program down, and what happened before."""
        self.programs[program.number] = (program.name, program.device_ids)
        self._write(lambda writer: writer.program(program))

    def flush(self) -> None:
        """Writes down what happened since the last time."""
        self._write(lambda _: None)

    def open_tap(self) -> EventTap:
        """Begins to copy events."""
        self.flush()
        tap = EventTap()
        self._taps.append(tap)
        return tap

    def close_tap(self, tap: EventTap) -> np.ndarray:
        """The events since the tap was opened."""
        self.flush()
        self._taps.remove(tap)
        return np.concatenate([np.empty(0, EVENT_DTYPE), *tap.batches])

    def end(self, client: int, compiler_starts: int) -> None:
        """Writes the end, also when nothing else could be written; later events are not recorded."""
        self.flush()
        with self._lock, contextlib.suppress(OSError):
            if self._writer:
                self._writer.end(self._describe_end(client, compiler_starts))
        self._writer = None

    def _describe_end(self, client: int, compiler_starts: int) -> EndRecord:
        memory = tuple(
            DeviceMemory(**dict(zip(DeviceMemory.__slots__, row, strict=True)))
            for row in (_core.memory_state(client) if client else ())
        )
        return EndRecord(
            wall_s=monotonic() - self._began,
            memory=memory,
            dropped_events=_core.dropped_events(),
            compiler_starts=compiler_starts,
            stops_early=self._stops_early,
            problems=tuple(self.problems),
        )

    def read_back(self) -> bytes:
        """The whole file so far."""
        with self._lock:
            at = self._file.tell()
            self._file.seek(0)
            data = self._file.read()
            self._file.seek(at)
            return data

    def _write(self, write: Callable[[RecordingWriter], object]) -> None:
        """Writes what happened, then runs `write`; an error of the disk ends that for good.

        Does nothing in a forked child, nor within itself (a finalizer that runs a program).
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_writing:
                return
            self._is_writing = True
            try:
                self._flush()
                if self._writer and not self._stops_early:
                    write(self._writer)
            except OSError as error:
                self.problem(f"the recording stops early: {error.strerror}")
                self._stops_early = True
            finally:
                self._is_writing = False

    def _flush(self) -> None:
        raw = _core.drain_events()  # first: what it refers to is then known
        events = np.frombuffer(raw, _CORE_DTYPE).astype(EVENT_DTYPE)
        for tap in self._taps:
            tap.batches.append(events)
        if self._writer is None or self._stops_early:
            return
        stacks = _core.stacks_after(self._stacks)
        shapes = _core.shapes_from(self._shapes)
        self._stacks += len(stacks)
        self._shapes += len(shapes)
        self._writer.stacks(stacks)
        self._writer.shapes(shapes)
        whys = self.reasons.after(self._whys)
        self._whys += len(whys)
        self._writer.whys(whys)
        self._writer.events(events)
