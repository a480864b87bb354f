"""What the threads of the host asked of the slice, read from a recording."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import NamedTuple

import numpy as np

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

_KINDS = (
    EventKind.EXECUTE, EventKind.HOST_TO_DEVICE, EventKind.DEVICE_TO_HOST, EventKind.COPY,
    EventKind.CALLBACK, EventKind.WAIT,
)  # fmt: skip


class Route(IntFlag):
    """Between which memories the bytes of a transfer go. Neither: within the host's."""

    TO_DEVICE = 1
    FROM_DEVICE = 2
    AHEAD = 4  # a copy to the host that the program asks for before it needs it


class Call(NamedTuple):
    """A call of a thread.

    `event` is its place in the recording. `clock_ns` is when the thread came back from it and `cpu_ns`
    the CPU time that it had used by then, both without vtpu's own work. `number` is that of an execution,
    or of a transfer that fills a buffer, else 0. `kind`, `route` are as numbers.
    """

    event: int
    kind: int
    thread: int
    clock_ns: int
    cpu_ns: int
    device: int
    bytes: int
    program: int
    number: int
    awaits_execution: int
    awaits_transfer: int
    route: int


def knows_host_time(recording: Recording) -> bool:
    """Whether a recording says what the host's threads did, which older ones do not."""
    return bool(of_kind(recording.events, EventKind.EXECUTE)["thread"].any())


def calls_of(recording: Recording) -> Iterator[Call]:
    """The calls of all threads, in order. Executions that failed are none."""
    events = recording.events
    kinds = events["kind"]
    is_call = np.isin(kinds, _KINDS) & (events["thread"] > 0)
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
        _numbers(events)[is_call],
        calls["awaits_execution"],
        calls["awaits_transfer"],
        _routes(recording, calls),
    )
    return map(Call._make, zip(*(column.tolist() for column in columns), strict=True))


def _numbers(events: np.ndarray) -> np.ndarray:
    """Of each event its own number as an execution, or as a transfer that fills a buffer."""
    fills = np.isin(events["kind"], (EventKind.HOST_TO_DEVICE, EventKind.COPY))
    executions = events["subject"].astype(np.int64)
    return np.where(events["kind"] == EventKind.EXECUTE, executions, np.cumsum(fills) * fills)


def paused_before(events: np.ndarray, times_ns: np.ndarray) -> np.ndarray:
    """How much of vtpu's own work lies before each of some times."""
    pauses = of_kind(events, EventKind.PAUSE)
    if not len(pauses):
        return np.zeros(len(times_ns), np.int64)
    begins, lengths = pauses["time_ns"], pauses["host_ns"]
    bounds = np.stack([begins, begins + lengths], axis=1).ravel()
    done = np.cumsum(np.stack([np.zeros_like(lengths), lengths], axis=1).ravel())
    return np.interp(times_ns, bounds, done).astype(np.int64)


def _routes(recording: Recording, calls: np.ndarray) -> np.ndarray:
    kinds, is_device = calls["kind"], memory_kinds(calls) == MemoryKind.DEVICE
    is_read, is_copy = kinds == EventKind.DEVICE_TO_HOST, kinds == EventKind.COPY
    from_device = is_copy & (source_kinds(calls) == MemoryKind.DEVICE)
    ahead = is_read & np.isin(calls["stack"], asking_ahead(recording))
    return (
        Route.TO_DEVICE.value * (is_device & ~is_read)
        + Route.FROM_DEVICE.value * (from_device | (is_read & is_device))
        + Route.AHEAD.value * ahead
    )


def asking_ahead(recording: Recording) -> list[int]:
    """Stacks of copies to the host that nobody waits for yet. `jax.device_get` asks ahead and waits."""
    return [
        number
        for number, stack in enumerate(recording.stacks, 1)
        if stack
        and stack[0].function.endswith("copy_to_host_async")
        and not any(f.function == "device_get" and "/jax/" in f.file for f in stack)
    ]
