"""What `jax.profiler` sees of the devices: a plane for each, with what happened while it traced.

Durations are how long a call kept the host: a virtual device has no time of its own yet. Every plane
says so in a stat.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from time import time_ns

import numpy as np

from vtpu.device import _core
from vtpu.device.recorder import EventTap, Recorder
from vtpu.reading.xplane.collecting import Entry, Kinds, collect
from vtpu.reading.xplane.space import Line, Plane, Space, Stats
from vtpu.reading.xplane.writing import encode_space
from vtpu.recording.events import EventKind

_TIME_BASIS = ("vtpu_time_basis", "host: how long each call kept the host, not a time of a device")
_PS_PER_NS = 1000
_MODULES, _TRANSFERS = "XLA Modules", "Transfers"
_TRANSFER_NAMES = {
    EventKind.HOST_TO_DEVICE: "TransferToDevice",
    EventKind.DEVICE_TO_HOST: "TransferFromDevice",
    EventKind.COPY: "CopyBetweenMemories",
    EventKind.CALLBACK: "HostCallback",
}


@dataclass(frozen=True, slots=True)
class _Session:
    """A trace under way: its events, and when it began on both clocks."""

    tap: EventTap
    began_ns: int
    began_unix_ns: int


class Profiles:
    """The traces under way in this process."""

    def __init__(self, recorder: Recorder, local_devices: tuple[int, ...]) -> None:
        self._recorder = recorder
        self._local_devices = local_devices
        self._numbers = itertools.count(1)
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()

    def begin(self) -> int:
        """Begins a trace; its number."""
        session = _Session(self._recorder.open_tap(), _core.now_ns(), time_ns())
        with self._lock:
            number = next(self._numbers)
            self._sessions[number] = session
        return number

    def end(self, number: int) -> bytes:
        """Ends a trace: a serialized XSpace."""
        with self._lock:
            session = self._sessions.pop(number)
        events = self._recorder.close_tap(session.tap)
        planes = {device: _Plane(device, session.began_unix_ns) for device in self._local_devices}
        for event in events:
            self._place(event, session.began_ns, planes)
        return encode_space(Space(planes=tuple(plane.build() for plane in planes.values())))

    def _place(self, event: np.void, began_ns: int, planes: dict[int, _Plane]) -> None:
        kind = EventKind(event["kind"])
        if kind is EventKind.EXECUTE:
            line = _MODULES
            name, devices = self._recorder.programs.get(int(event["program"]), ("?", ()))
            stats = {"program_id": int(event["program"]), "run_id": int(event["subject"])}
        elif kind in _TRANSFER_NAMES:
            line, name, devices = _TRANSFERS, _TRANSFER_NAMES[kind], ()
            stats = {"bytes": int(event["bytes"])}
        else:
            return
        offset = max(0, int(event["time_ns"]) - began_ns) * _PS_PER_NS
        duration = max(0, int(event["host_ns"])) * _PS_PER_NS
        of_event = int(event["device"])
        for device in devices if of_event < 0 else (of_event,):
            if device in planes:
                planes[device].add(line, name, offset, duration, stats)


class _Plane:
    """A device's plane under construction."""

    def __init__(self, device: int, began_unix_ns: int) -> None:
        self._device = device
        self._began_unix_ns = began_unix_ns
        self._kinds = Kinds()
        self._lines: dict[str, list[Entry]] = {}

    def add(self, line: str, name: str, offset: int, duration: int, stats: Stats) -> None:
        entry = Entry(
            metadata=self._kinds.named(name), offset_ps=offset, duration_ps=duration, stats=stats
        )
        self._lines.setdefault(line, []).append(entry)

    def build(self) -> Plane:
        lines = tuple(
            Line(id=i, name=name, began_ns=self._began_unix_ns, events=collect(entries))
            for i, (name, entries) in enumerate(self._lines.items(), start=1)
        )
        return Plane(
            id=self._device,
            name=f"/device:TPU:{self._device}",
            lines=lines,
            metadata=self._kinds.metadata,
            stats=dict([_TIME_BASIS]),
        )
