"""A recording on the virtual clock: when each execution and transfer would have happened on the slice.

What the host did is as recorded: the calls of each thread in their order, the CPU time between them, and
how long it was blocked. Compiling and computing values, which are vtpu's own work, take no time. How long
an execution takes is said by whoever asks (`Durations`).

Calls of several threads are taken in the order in which they happened here, and a thread begins when it
was first seen here; that one thread waits for another is known only as time in which it was blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from vtpu.analysis.run.calls import Call, Route, calls_of
from vtpu.analysis.time.programs import Durations, machine_of_run, positions_of
from vtpu.clock.host_links import links_of
from vtpu.clock.host_threads import HostThreads
from vtpu.clock.timeline import Timeline
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

_NS = 1e9

EXECUTION_DTYPE = np.dtype(
    [
        ("event", "<i8"),  # its place among the events
        ("program", "<i8"),
        ("device", "<i8"),  # -1: all of the program's
        ("thread", "<i8"),  # that dispatched it
        ("asked_ns", "<i8"),  # dispatched
        ("inputs_ns", "<i8"),  # the transfers that filled its arguments were done
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
    ]
)
STRETCH_DTYPE = np.dtype(
    [
        ("event", "<i8"),  # the call that the thread came to, its place among the events
        ("thread", "<i8"),
        ("doing", "<i8"),
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
    ]
)
TRANSFER_DTYPE = np.dtype(
    [
        ("event", "<i8"),
        ("device", "<i8"),
        ("to_host", "?"),
        ("bytes", "<i8"),
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
    ]
)


class Doing(IntEnum):
    """What a thread of the host does."""

    WORKING = 0  # on the CPU
    BLOCKED = 1  # waits for another thread, sleeps, or reads
    WAITING = 2  # for an execution or a transfer that it asked about
    QUEUEING = 3  # to dispatch: it is as far ahead of the device as it may be


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualRun:
    """A run on the virtual clock, as arrays of EXECUTION_DTYPE, STRETCH_DTYPE and TRANSFER_DTYPE.

    `devices_of` gives the devices of this host on which a program ran. `unknown` are the programs whose
    durations are not known: their executions took no time here. `untimed_bytes` crossed a link whose
    rate is not known. `asked_ahead`: copies to the host that the program asked for before it needed them;
    whether it waited for them later is not in a recording. `between_devices`: copies from device to
    device, which took no time here.
    """

    executions: np.ndarray
    stretches: np.ndarray
    transfers: np.ndarray
    devices_of: Callable[[int], tuple[int, ...]]
    unknown: frozenset[int]
    untimed_bytes: int
    asked_ahead: int
    between_devices: int
    host_speed: float

    def on_device(self, device: int) -> np.ndarray:
        """The executions of one device, in order."""
        executions = self.executions
        programs = np.unique(executions["program"]).tolist()
        here = [p for p in programs if device in self.devices_of(p)]
        on_all = (executions["device"] < 0) & np.isin(executions["program"], here)
        return executions[on_all | (executions["device"] == device)]


def run_on_clock(recording: Recording, durations: Durations, host_speed: float = 1.0) -> VirtualRun:
    """The run as it would have gone on the slice.

    `host_speed`: how much faster the slice's host computes than this machine.
    """
    return _Replay(recording, durations, host_speed).run()


_TO_DEVICE, _FROM_DEVICE, _AHEAD = (route.value for route in Route)  # calls have them as numbers


class _Replay:
    """Drives the timeline by the events of a recording."""

    def __init__(self, recording: Recording, durations: Durations, host_speed: float) -> None:
        self._recording = recording
        self._durations = durations
        self._host_speed = host_speed
        self._threads = HostThreads(host_speed)
        self._local = tuple(d.id for d in recording.run.devices if d.host == recording.run.host)
        self._timeline = Timeline(
            self._local, links_of(positions_of(recording.run)), _link_rate(recording)
        )
        self._programs = {p.number: p for p in recording.programs}
        self._known: dict[int, tuple[tuple[int, ...], int]] = {}
        self._unknown: set[int] = set()
        self._asked_ahead = self._between_devices = 0
        self._executions: list[tuple[int, ...]] = []
        self._stretches: list[tuple[int, ...]] = []
        self._transfers: list[tuple[Any, ...]] = []

    def run(self) -> VirtualRun:
        for call in calls_of(self._recording):
            self._take(call)
        return VirtualRun(
            executions=np.array(self._executions, EXECUTION_DTYPE),
            stretches=np.array(self._stretches, STRETCH_DTYPE),
            transfers=np.array(self._transfers, TRANSFER_DTYPE),
            devices_of=lambda program: self._of_program(program)[0],
            unknown=frozenset(self._unknown),
            untimed_bytes=self._timeline.untimed_bytes,
            asked_ahead=self._asked_ahead,
            between_devices=self._between_devices,
            host_speed=self._host_speed,
        )

    def _take(self, call: Call) -> None:
        begins, works, now = self._threads.go_on(call.thread, call.clock_ns, call.cpu_ns)
        self._note(call, Doing.BLOCKED, begins, works)
        self._note(call, Doing.WORKING, works, now)
        if call.kind == EventKind.EXECUTE:
            self._execute(call, now)
            return
        ready = max(now, self._timeline.done(call.awaits_execution, call.awaits_transfer))
        if call.kind == EventKind.WAIT:
            self._wait(call, now, ready)
        elif call.kind == EventKind.DEVICE_TO_HOST:
            self._read(call, now, ready)
        elif call.number:
            self._fill(call, ready)

    def _execute(self, call: Call, now: int) -> None:
        devices, length = self._of_program(call.program)
        if call.device in self._local:
            devices = (call.device,)
        asked = self._timeline.room(now, devices)
        if asked > now:
            self._note(call, Doing.QUEUEING, now, asked)
            self._threads.wait(call.thread, asked)
        awaits = call.awaits_transfer
        span = self._timeline.execute(asked, call.number, devices, length, awaits)
        inputs = self._timeline.done(0, awaits)
        self._executions.append(
            (call.event, call.program, call.device, call.thread, asked, inputs, *span)
        )

    def _wait(self, call: Call, now: int, until: int) -> None:
        self._note(call, Doing.WAITING, now, until)
        self._threads.wait(call.thread, until)

    def _read(self, call: Call, now: int, ready: int) -> None:
        read = self._fetch(call, ready) if call.route & _FROM_DEVICE else ready
        if call.route & _AHEAD:
            self._asked_ahead += 1
        else:
            self._wait(call, now, read)

    def _fill(self, call: Call, ready: int) -> None:
        """A transfer from the host, or between memories; one that crosses no link takes no time."""
        way = call.route & (_TO_DEVICE | _FROM_DEVICE)
        if way == _TO_DEVICE:
            span = self._timeline.send(ready, call.number, call.device, call.bytes)
            self._transfers.append((call.event, call.device, False, call.bytes, *span))
        elif way == _FROM_DEVICE:
            self._timeline.arrive(self._fetch(call, ready), call.number)
        else:
            self._between_devices += bool(way)
            self._timeline.arrive(ready, call.number)

    def _fetch(self, call: Call, ready: int) -> int:
        span = self._timeline.fetch(ready, call.device, call.bytes)
        self._transfers.append((call.event, call.device, True, call.bytes, *span))
        return span.end_ns

    def _note(self, call: Call, doing: Doing, begin: int, end: int) -> None:
        if end > begin:
            self._stretches.append((call.event, call.thread, doing, begin, end))

    def _of_program(self, program: int) -> tuple[tuple[int, ...], int]:
        """The devices of this host on which a program runs, and how long: nanoseconds."""
        if program not in self._known:
            found = self._programs.get(program)
            ids = found.device_ids if found else ()
            time = self._durations(program)
            if time is None:
                self._unknown.add(program)
            local = tuple(d for d in ids if d in self._local) or self._local[:1]
            self._known[program] = (local, round(time.seconds * _NS) if time else 0)
        return self._known[program]


def _link_rate(recording: Recording) -> float | None:
    """What a chip's link to its host carries in each direction, bytes per second, if a source says so."""
    machine = machine_of_run(recording.run)
    return machine.host_link_bytes_per_s if machine else None
