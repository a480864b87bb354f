"""What `jax.profiler` gets of the devices: what was recorded while it traced.

Making a profile of that is not this room's: whoever puts the slice in place says who does.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import time_ns

from vtpu.device import _core
from vtpu.device.recorder import Recorder
from vtpu.recording.file import NotARecording, parse_recording
from vtpu.recording.recording import Recording

Writer = Callable[[Recording, int, int], bytes]
"""Makes a serialized XSpace of what was recorded from a time on: by the events' clock, by Unix time."""

_NOTHING = b""  # an XSpace without planes
_writers: list[Writer] = []


def write_profiles_by(writer: Writer) -> None:
    """From now on `writer` makes the profiles of this process."""
    _writers[:] = [writer]


@dataclass(frozen=True, slots=True)
class _Session:
    """A trace under way: when it began, on both clocks. Nanoseconds."""

    began_ns: int
    began_unix_ns: int


class Profiles:
    """The traces under way in this process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers = itertools.count(1)
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()

    def begin(self) -> int:
        """Begins a trace; its number."""
        session = _Session(_core.now_ns(), time_ns())
        with self._lock:
            number = next(self._numbers)
            self._sessions[number] = session
        return number

    def end(self, number: int) -> bytes:
        """Ends a trace: a serialized XSpace."""
        with self._lock:
            session = self._sessions.pop(number)
        if not _writers:
            return _NOTHING
        try:
            recording = parse_recording(self._recorder.read_so_far())
        except NotARecording as error:  # the disk was full before the first event
            self._recorder.problem(f"a profile without devices: {error}")
            return _NOTHING
        return _writers[0](recording, session.began_ns, session.began_unix_ns)
