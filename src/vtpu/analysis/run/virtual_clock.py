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

from vtpu.analysis.run.program_times import machine_of_run
from vtpu.clock.host_threads import HostThreads
from vtpu.clock.program_time import Estimate
from vtpu.clock.timeline import Timeline
from vtpu.recording.events import (
    EventFlag,
    EventKind,
    MemoryKind,
    memory_kinds,
    of_kind,
    select,
    source_kinds,
)
from vtpu.recording.recording import Recording

Durations = Callable[[int], Estimate | None]
"""How long one execution of a program takes, by the program's number; None: not known."""

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
    [("thread", "<i8"), ("doing", "<i8"), ("begin_ns", "<i8"), ("end_ns", "<i8")]
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
    whether it waited for them later is not in a recording.
    """

    executions: np.ndarray
    stretches: np.ndarray
    transfers: np.ndarray
    devices_of: Callable[[int], tuple[int, ...]]
    unknown: frozenset[int]
    untimed_bytes: int
    asked_ahead: int
    host_speed: float

    def on_device(self, device: int) -> np.ndarray:
        """The executions of one device, in order."""
        executions = self.executions
        programs = np.unique(executions["program"]).tolist()
        here = [p for p in programs if device in self.devices_of(p)]
        on_all = (executions["device"] < 0) & np.isin(executions["program"], here)
        return executions[on_all | (executions["device"] == device)]


def knows_host_time(recording: Recording) -> bool:
    """Whether a recording says what the host's threads did, which older ones do not."""
    return bool(of_kind(recording.events, EventKind.EXECUTE)["thread"].any())


def run_on_clock(recording: Recording, durations: Durations, host_speed: float = 1.0) -> VirtualRun:
    """The run as it would have gone on the slice.

    `host_speed`: how much faster the slice's host computes than this machine.
    """
    return _Replay(recording, durations, host_speed).run()


class _Replay:
    """Drives the timeline by the events of a recording."""

    def __init__(self, recording: Recording, durations: Durations, host_speed: float) -> None:
        self._recording = recording
        self._durations = durations
        self._host_speed = host_speed
        self._threads = HostThreads(host_speed)
        self._local = tuple(d.id for d in recording.run.devices if d.host == recording.run.host)
        self._timeline = Timeline(self._local, _links(recording), _link_rate(recording))
        self._programs = {p.number: p for p in recording.programs}
        self._known: dict[int, tuple[tuple[int, ...], int]] = {}
        self._unknown: set[int] = set()
        self._asked_ahead = 0
        self._executions: list[tuple[int, ...]] = []
        self._stretches: list[tuple[int, ...]] = []
        self._transfers: list[tuple[Any, ...]] = []

    def run(self) -> VirtualRun:
        for call in _calls(self._recording):
            self._take(*call)
        return VirtualRun(
            executions=np.array(self._executions, EXECUTION_DTYPE),
            stretches=np.array(self._stretches, STRETCH_DTYPE),
            transfers=np.array(self._transfers, TRANSFER_DTYPE),
            devices_of=lambda program: self._of_program(program)[0],
            unknown=frozenset(self._unknown),
            untimed_bytes=self._timeline.untimed_bytes,
            asked_ahead=self._asked_ahead,
            host_speed=self._host_speed,
        )

    def _take(
        self,
        event: int,
        kind: int,
        thread: int,
        clock_ns: int,
        cpu_ns: int,
        device: int,
        size: int,
        program: int,
        number: int,
        awaits_execution: int,
        awaits_transfer: int,
        route: int,
    ) -> None:
        """One call of a thread. `number`: its own as an execution or transfer; `route`: see `_routes`."""
        begins, works, now = self._threads.go_on(thread, clock_ns, cpu_ns)
        self._note(thread, Doing.BLOCKED, begins, works)
        self._note(thread, Doing.WORKING, works, now)
        if kind == EventKind.EXECUTE:
            self._execute(event, thread, now, device, program, number, awaits_transfer)
            return
        ready = max(now, self._timeline.done(awaits_execution, awaits_transfer))
        if kind == EventKind.WAIT:
            self._wait(thread, now, ready)
        elif kind == EventKind.DEVICE_TO_HOST:
            read = self._read(event, ready, device, size, route)
            if route & _AHEAD:
                self._asked_ahead += 1
            else:
                self._wait(thread, now, read)
        elif number:
            self._fill(event, ready, device, size, number, route)

    def _execute(
        self, event: int, thread: int, now: int, device: int, program: int, number: int, awaits: int
    ) -> None:
        devices, length = self._of_program(program)
        if device >= 0:
            devices = (device,)
        asked = self._timeline.room(now, devices)
        if asked > now:
            self._note(thread, Doing.QUEUEING, now, asked)
            self._threads.wait(thread, asked)
        inputs = self._timeline.done(0, awaits)
        begin, end = self._timeline.execute(asked, number, devices, length, awaits)
        self._executions.append((event, program, device, thread, asked, inputs, begin, end))

    def _wait(self, thread: int, now: int, until: int) -> None:
        self._note(thread, Doing.WAITING, now, until)
        self._threads.wait(thread, until)

    def _read(self, event: int, ready: int, device: int, size: int, route: int) -> int:
        if not route & _FROM_DEVICE:
            return ready
        span = self._timeline.fetch(ready, device, size)
        self._transfers.append((event, device, True, size, *span))
        return span.end_ns

    def _fill(
        self, event: int, ready: int, device: int, size: int, number: int, route: int
    ) -> None:
        """A transfer from the host, or between memories; one that crosses no link takes no time."""
        to_device, from_device = route & _TO_DEVICE, route & _FROM_DEVICE
        if to_device and not from_device:
            span = self._timeline.send(ready, number, device, size)
            self._transfers.append((event, device, False, size, *span))
        elif from_device and not to_device:
            self._timeline.arrive(self._read(event, ready, device, size, route), number)
        else:
            self._timeline.arrive(ready, number)

    def _note(self, thread: int, doing: Doing, begin: int, end: int) -> None:
        if end > begin:
            self._stretches.append((thread, doing, begin, end))

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


# ---- the calls of a recording ------------------------------------------------------------------

_TO_DEVICE, _FROM_DEVICE, _AHEAD = 1, 2, 4
_CALLS = (
    EventKind.EXECUTE, EventKind.HOST_TO_DEVICE, EventKind.DEVICE_TO_HOST, EventKind.COPY,
    EventKind.CALLBACK, EventKind.WAIT,
)  # fmt: skip


def _calls(recording: Recording) -> Any:
    """What the host's threads asked of the slice, in order; see `_Replay._take` for the columns."""
    events = recording.events
    kinds = events["kind"]
    fills = np.isin(kinds, (EventKind.HOST_TO_DEVICE, EventKind.COPY))
    own = events["subject"].astype(np.int64)  # of an execution its number
    numbers = np.where(kinds == EventKind.EXECUTE, own, np.cumsum(fills) * fills)
    is_call = np.isin(kinds, _CALLS) & (events["thread"] > 0)
    is_call &= (kinds != EventKind.EXECUTE) | (events["flags"] & EventFlag.FAILED == 0)
    calls = select(events, is_call)
    ends = calls["time_ns"] + np.maximum(0, calls["host_ns"])
    columns = (
        np.flatnonzero(is_call),
        calls["kind"],
        calls["thread"],
        ends - paused_before(events, ends),
        calls["cpu_ns"],
        calls["device"],
        calls["bytes"],
        calls["program"],
        numbers[is_call],
        calls["awaits_execution"],
        calls["awaits_transfer"],
        _routes(recording, calls),
    )
    return zip(*(column.tolist() for column in columns), strict=True)


def paused_before(events: np.ndarray, times_ns: np.ndarray) -> np.ndarray:
    """How much of vtpu's own work lies before each of some times."""
    pauses = of_kind(events, EventKind.PAUSE)
    if not len(pauses):
        return np.zeros(len(times_ns), np.int64)
    begins = pauses["time_ns"]
    bounds = np.stack([begins, begins + pauses["host_ns"]], axis=1).ravel()
    done = np.cumsum(np.stack([np.zeros_like(begins), pauses["host_ns"]], axis=1).ravel())
    return np.interp(times_ns, bounds, done).astype(np.int64)


def _routes(recording: Recording, calls: np.ndarray) -> np.ndarray:
    """Between which memories bytes go, and whether the program asked for them ahead."""
    kinds, to = calls["kind"], memory_kinds(calls)
    is_device = to == MemoryKind.DEVICE
    is_read, is_copy = kinds == EventKind.DEVICE_TO_HOST, kinds == EventKind.COPY
    from_device = is_copy & (source_kinds(calls) == MemoryKind.DEVICE)
    ahead = is_read & np.isin(calls["stack"], _asked_ahead(recording))
    return (
        _TO_DEVICE * (is_device & ~is_read)
        + _FROM_DEVICE * (from_device | (is_read & is_device))
        + _AHEAD * ahead
    )


def _asked_ahead(recording: Recording) -> list[int]:
    """Stacks of copies to the host that nobody waits for yet. `jax.device_get` asks ahead and waits."""
    return [
        number
        for number, stack in enumerate(recording.stacks, 1)
        if stack
        and stack[0].function.endswith("copy_to_host_async")
        and not any(f.function == "device_get" and "/jax/" in f.file for f in stack)
    ]


def _links(recording: Recording) -> dict[int, int]:
    """The link of each device: those of one chip share it."""
    chips: dict[tuple[object, ...], int] = {}
    return {
        d.id: chips.setdefault((d.slice_index, *(d.coords or ("device", d.id))), len(chips))
        for d in recording.run.devices
    }


def _link_rate(recording: Recording) -> float | None:
    """What a chip's link to its host carries in each direction, bytes per second, if a source says so."""
    machine = machine_of_run(recording.run)
    return machine.host_link_bytes_per_s if machine else None
