"""What a thread of the host did, written by hand as events of a recording. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recordings import program, recording
from vtpu.chips import parse_slice
from vtpu.clock.machine import machine_of
from vtpu.clock.program_time import Estimate
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

_MS = 1_000_000
_LINK = machine_of(parse_slice("v5e:2x4"), {}).host_link_bytes_per_s  # of the recordings' slice


def crossing(ms: float) -> int:
    """Bytes that the link of a v5e carries in some milliseconds."""
    assert _LINK
    return round(_LINK * ms / 1e3)


class HostCalls:
    """The calls of one thread: it works and is blocked, and calls in between, which take no time."""

    def __init__(self, thread: int = 1, rows: list[dict[str, Any]] | None = None) -> None:
        self.rows: list[dict[str, Any]] = [] if rows is None else rows
        self.executions = self.transfers = 0
        self._thread = thread
        self._wall = self._cpu = 1.0

    def works(self, ms: float) -> HostCalls:
        """Computes."""
        self._wall += ms
        self._cpu += ms
        return self

    def blocked(self, ms: float) -> HostCalls:
        """Waits for another thread, sleeps or reads."""
        self._wall += ms
        return self

    def call(self, kind: EventKind, **fields: Any) -> HostCalls:
        """Any call."""
        now = {"time_ns": round(self._wall * _MS), "cpu_ns": round(self._cpu * _MS)}
        self.rows.append({"kind": kind, "thread": self._thread, "stack": 1, **now, **fields})
        return self

    def execute(self, program: int = 1, *, awaits: int = 0, device: int = -1) -> HostCalls:
        """Dispatches a program. `awaits`: the transfer that filled its arguments."""
        self.executions += 1
        return self.call(
            EventKind.EXECUTE,
            program=program,
            subject=self.executions,
            device=device,
            awaits_transfer=awaits,
        )

    def send(self, size: int = 0, device: int = 0, shape: int = 0) -> HostCalls:
        """Sends bytes to a device: the next transfer."""
        self.transfers += 1
        return self.call(EventKind.HOST_TO_DEVICE, bytes=size, device=device, detail=shape)

    def read(self, size: int = 0, **awaits: int) -> HostCalls:
        """Reads what the last execution gave, or what `awaits` names."""
        return self.call(
            EventKind.DEVICE_TO_HOST,
            bytes=size,
            **(awaits or {"awaits_execution": self.executions}),
        )

    def wait(self) -> HostCalls:
        """Waits for the last execution."""
        return self.call(EventKind.WAIT, awaits_execution=self.executions)

    def vtpu_works(self, ms: float) -> HostCalls:
        """vtpu computes a value, say."""
        self.call(EventKind.PAUSE, host_ns=round(ms * _MS))
        self._wall += ms
        return self

    def compiles(self, ms: float, program: int = 1) -> HostCalls:
        """A program is compiled."""
        self.call(EventKind.COMPILE, program=program, host_ns=round(ms * _MS))
        return self.vtpu_works(ms)

    def recorded(self, **parts: Any) -> Recording:
        """The recording of it."""
        programs = (program(1, "jit_step"), program(2, "jit_other"), program(3, "jit_third"))
        return recording(*self.rows, **{"programs": programs, **parts})


def lasting(**milliseconds: float) -> Callable[[int], Estimate | None]:
    """Durations of programs: `lasting(step=100)`; programs that are not named have none."""
    names = {1: "step", 2: "other", 3: "third"}

    def duration(program: int) -> Estimate | None:
        ms = milliseconds.get(names.get(program, ""))
        return None if ms is None else Estimate(ms / 1e3, ms / 1e3, ms / 1e3)

    return duration
