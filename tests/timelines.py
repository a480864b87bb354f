"""A run in time for tests: a real program of a dump, on the plain clock."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from plain_clock import plain_time
from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    Execution,
    HostSpan,
    HostWork,
    LinkTransfer,
    TimedProgram,
    TimelineDevice,
)
from vtpu.program.modules import Module
from vtpu.reading.buffer_assignment import find_assignment
from vtpu.reading.modules import read_wrapped_module

DUMPS = Path(__file__).parent / "analysis/dumps"
DUMP = "scan_v5e"
PROGRAM = 7
BEGAN_UNIX_NS = 1_700_000_000_000_000_000


@cache
def dumped(name: str = DUMP) -> tuple[Module, bytes]:
    """The module of a dump, and its bytes."""
    data = (DUMPS / f"{name}.hlo.pb").read_bytes()
    return read_wrapped_module(data), data


@cache
def timed(trips: int = 3, name: str = DUMP) -> TimedProgram:
    """A program of a dump with its time on the plain clock."""
    module, data = dumped(name)
    return TimedProgram(
        id=4711,
        name="jit_step",
        module=module,
        time=plain_time(module, trips),
        hlo=data,
        assignment=bytes(find_assignment(data)),
    )


def timeline(
    steps: int = 3,
    devices: int = 2,
    trips: int = 3,
    name: str = DUMP,
    gap_s: float = 1e-3,
    **parts: Any,
) -> DeviceTimeline:
    """A training loop: on every device one execution per step, `gap_s` apart, with its batch."""
    program = timed(trips, name)
    assert program.time is not None
    seconds = program.time.total.seconds
    starts = [step * (seconds + gap_s) for step in range(steps)]
    executions = tuple(
        Execution(
            number=step + 1,
            program=PROGRAM,
            device=device,
            start_s=start,
            end_s=start + seconds,
            step=step,
        )
        for step, start in enumerate(starts)
        for device in range(devices)
    )
    host = tuple(
        HostSpan(
            work=HostWork.EXECUTE,
            name="jit_step",
            start_s=start,
            end_s=start + 2e-5,
            line="train.py:12",
            execution=step + 1,
            step=step,
        )
        for step, start in enumerate(starts)
    )
    transfers = tuple(
        LinkTransfer(device=0, to_device=True, start_s=start, end_s=start + 1e-4, bytes=4096)
        for start in starts
    )
    values: dict[str, Any] = {
        "began_unix_ns": BEGAN_UNIX_NS,
        "host_name": "host-0",
        "slice": "v5e:2x2",
        "devices": tuple(
            TimelineDevice(id=i, kind="TPU v5 lite", ordinal=i, chip=i) for i in range(devices)
        ),
        "programs": {PROGRAM: program},
        "executions": executions,
        "transfers": transfers,
        "host": host,
    }
    return DeviceTimeline(**{**values, **parts})
