"""Writes what the native core saw into the recording, while the program runs.

A thread of the core's calls `flush` for that, at the latest a second after something happened, so a
process that is killed leaves all but its last second. Nothing that goes wrong with the file may stop the program: the first error ends the writing and is
kept as a problem for the report.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import numpy as np

from vtpu.device import _core
from vtpu.recording.claim import claim_file, release_unused
from vtpu.recording.events import EVENT_DTYPE
from vtpu.recording.file import RecordingWriter
from vtpu.recording.recording import DeviceMemory, EndRecord, ProgramRecord, RunRecord, ValuesRecord
from vtpu.values.reasons import Reasons

_CORE_DTYPE = np.dtype(
    {
        "names": [name for name, _, _ in _core.event_fields()],
        "offsets": [offset for _, offset, _ in _core.event_fields()],
        "formats": [kind for _, _, kind in _core.event_fields()],
        "itemsize": _core.event_bytes(),
    }
)

_READ_AT_ONCE = 1 << 26


class Recorder:
    """The recording of this process. Forked children have none: the core records nothing there.

    `is_claimed`: somebody made the empty file `out` for this process. `run_began`: see `claim_file`.
    """

    def __init__(
        self,
        out: Path | None,
        run: RunRecord,
        reasons: Reasons,
        *,
        is_claimed: bool = False,
        run_began: float | None = None,
    ) -> None:
        self.run = run
        self.path: Path | None = None
        self.problems: list[str] = []
        self._began = monotonic() - _core.now_ns() / 1e9  # as the events' clock
        self._stacks = self._shapes = self._whys = 0
        self.reasons = reasons
        self._waiting: deque[ProgramRecord] = deque()
        self._watchers: list[list[ProgramRecord]] = []
        self._stops_early = False
        self._file = self._open(out, is_claimed, run_began)
        self._writer: RecordingWriter | None = self._begin(run, is_claimed)  # None: it ended

    def begin_writing(self) -> None:
        """From now on what happens is written down. The core's handlers are in place."""
        if not _core.start_writer():
            self.problem("the recording was only written at the end: there was no thread for it")

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

    def _open(self, out: Path | None, is_claimed: bool, run_began: float | None) -> BinaryIO:
        try:
            if out is not None:
                return self._open_at(out, is_claimed, run_began)
        except OSError as error:
            self.problem(f"the recording cannot be written to {out}: {error.strerror}")
        try:
            return tempfile.TemporaryFile(buffering=0, prefix="vtpu-", suffix=".vtpu")
        except OSError:  # no folder for temporary files
            return io.BytesIO()

    def _open_at(self, out: Path, is_claimed: bool, run_began: float | None) -> BinaryIO:
        if is_claimed:
            self.path, file = out, out.open("r+b", buffering=0)
        else:
            self.path, file = claim_file(out, run_began)
        return file

    def problem(self, text: str) -> None:
        """Notes what went wrong, once."""
        if text not in self.problems:
            self.problems.append(text)

    def program(self, program: ProgramRecord) -> None:
        """Has a program written down, and what happened before."""
        for seen in self._watchers:
            seen.append(program)
        self._waiting.append(program)
        _core.hurry_writer()

    @contextlib.contextmanager
    def watch_programs(self) -> Generator[list[ProgramRecord]]:
        """The programs that are recorded meanwhile, also those that did not compile."""
        seen: list[ProgramRecord] = []
        self._watchers.append(seen)
        try:
            yield seen
        finally:
            self._watchers.remove(seen)

    def end(
        self,
        client: int,
        compiler_starts: int,
        values: ValuesRecord,
        late_settings: dict[str, str] | None = None,
    ) -> None:
        """Writes the end, also when nothing else could be written; later events are not recorded."""
        _core.end_writer()
        self.flush()  # of what no thread wrote, when there was no room for one
        with contextlib.suppress(OSError):
            if self._writer:
                end = self._describe_end(client, compiler_starts, values)
                self._writer.end(replace(end, late_settings=late_settings or {}))
        self._writer = None

    def _describe_end(self, client: int, compiler_starts: int, values: ValuesRecord) -> EndRecord:
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
            values=values,
            problems=tuple(self.problems),
        )

    def read_so_far(self) -> bytes:
        """What the file holds by now, which may still be written: what happened so far is in it."""
        _core.await_writer()
        if isinstance(self._file, io.BytesIO):
            return self._file.getvalue()
        handle, parts, at = self._file.fileno(), list[bytes](), 0
        while part := os.pread(handle, _READ_AT_ONCE, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def read_back(self) -> bytes:
        """The whole file, once it ended."""
        self._file.seek(0)
        return self._file.read()

    def flush(self) -> None:
        """Writes down what happened since the last time; an error of the disk ends that for good.

        Runs on one thread at a time: the core's, after its end the one that ends the recording.
        """
        events = np.frombuffer(_core.drain_events(), _CORE_DTYPE).astype(EVENT_DTYPE)
        if self._writer is None or self._stops_early:
            self._waiting.clear()
            return
        try:
            self._append(self._writer, events)
        except OSError as error:
            self.problem(f"the recording stops early: {error.strerror}")
            self._stops_early = True

    def _append(self, writer: RecordingWriter, events: np.ndarray) -> None:
        """What the events refer to is known when they are drained, and is written before them."""
        stacks = _core.stacks_after(self._stacks)
        shapes = _core.shapes_from(self._shapes)
        self._stacks += len(stacks)
        self._shapes += len(shapes)
        writer.stacks(stacks)
        writer.shapes(shapes)
        whys = self.reasons.after(self._whys)
        self._whys += len(whys)
        writer.whys(whys)
        while self._waiting:
            writer.program(self._waiting.popleft())
        writer.events(events)
