"""How long a step takes on the slice, and what the device waits for, from a run on the virtual clock.

A step goes from one execution of the step's program to the next on the same device. The step's program is
the one that is executed again and again and keeps the device longest. Steps count from the second on, and
only those in which nothing was compiled: JAX traces then, which no later step does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from vtpu.analysis.run.definitions import is_operation
from vtpu.analysis.run.virtual_clock import Doing, VirtualRun
from vtpu.recording.events import EventKind
from vtpu.recording.recording import ProgramRecord, Recording

_NS = 1e9
_FEWEST_CALLS = 3  # of a program that makes steps
_IDLE_SHARE = 0.05  # below this a step is bound by the device
_SPREAD = (10, 90)  # percentiles


class BoundBy(StrEnum):
    """What a step would have to have faster to be shorter."""

    DEVICE = "the device"
    HOST_WORK = "the host's work"
    HOST_BLOCKED = "what blocks the host (other threads, input and output, sleep)"
    HOST_WAITS = "the host reads results before it goes on"
    INPUT_TRANSFER = "the transfer of the input"
    OTHER_DEVICES = "other devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTime:
    """Why the device had nothing to do, seconds per step.

    Before the host dispatched the next execution: because the host worked, was blocked by something else
    than the device, or waited for results to arrive. After that: because the arguments were still on
    their way, or another device of the program was not free.
    """

    host_works_s: float
    host_blocked_s: float
    host_waits_s: float
    input_transfer_s: float
    other_devices_s: float

    def parts(self) -> Iterator[tuple[BoundBy, float]]:
        """Each cause with its time."""
        yield BoundBy.HOST_WORK, self.host_works_s
        yield BoundBy.HOST_BLOCKED, self.host_blocked_s
        yield BoundBy.HOST_WAITS, self.host_waits_s
        yield BoundBy.INPUT_TRANSFER, self.input_transfer_s
        yield BoundBy.OTHER_DEVICES, self.other_devices_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What crosses the links to this host's devices in one step: bytes of all, seconds of the busiest.

    Seconds are null where the rate of the links is not known.
    """

    bytes: float
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a run. Times are seconds.

    `count` steps were looked at; `left_out` are the first one and those in which something was compiled.
    `fast_s` and `slow_s`: one in ten steps is faster, one in ten slower. The parts are means over
    the half of the steps that is nearest to the median, so that a slow step (a checkpoint) does not move
    them: `busy_s` and the parts of `idle` sum to `mean_s`. `host_*`: what the thread that dispatches does in a step.
    """

    program: int
    device: int
    count: int
    left_out: int
    median_s: float
    fast_s: float
    slow_s: float
    mean_s: float
    busy_s: float
    idle: IdleTime
    host_works_s: float
    host_blocked_s: float
    host_waits_s: float
    to_device: Traffic
    from_device: Traffic
    bound_by: BoundBy


def find_steps(recording: Recording, run: VirtualRun, program: int) -> Steps:
    """The steps that a program makes, see `program_of_steps`."""
    on_device = run.on_device(run.devices_of(program)[0])
    at = np.flatnonzero(on_device["program"] == program)
    kept = _steady(recording, on_device["event"][at])
    return _summarize(run, program, on_device, at, kept)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Parts of `steps` steps, one after the other, and the threads that dispatched what comes behind."""

    begin_ns: np.ndarray
    end_ns: np.ndarray
    threads: np.ndarray
    steps: int


def gaps_of_steps(recording: Recording, run: VirtualRun, program: int) -> Intervals:
    """When the device had nothing to do before the host dispatched: behind `Steps.idle`."""
    on_device = run.on_device(run.devices_of(program)[0])
    at, middle = _middle_steps(recording, on_device, program)
    ends = at.tolist()
    inside = [n for step in middle.tolist() for n in range(ends[step] + 1, ends[step + 1] + 1)]
    free, dispatched = _until_dispatched(on_device)
    return Intervals(free[inside], dispatched[inside], on_device["thread"][inside], len(middle))


def whole_steps(recording: Recording, run: VirtualRun, program: int) -> Intervals:
    """The same steps from beginning to end."""
    on_device = run.on_device(run.devices_of(program)[0])
    at, middle = _middle_steps(recording, on_device, program)
    begins, threads = on_device["begin_ns"][at], on_device["thread"][at]
    return Intervals(begins[middle], begins[middle + 1], threads[middle + 1], len(middle))


def _middle_steps(
    recording: Recording, on_device: np.ndarray, program: int
) -> tuple[np.ndarray, np.ndarray]:
    """The executions of a program, and which of the steps between them are nearest to the median."""
    at = np.flatnonzero(on_device["program"] == program)
    kept = _steady(recording, on_device["event"][at])
    return at, kept[_nearest_half(np.diff(on_device["begin_ns"][at])[kept])]


def program_of_steps(run: VirtualRun, records: Iterable[ProgramRecord]) -> int | str:
    """The program whose executions keep the device longest, of those that were executed repeatedly; or why
    there is none.

    Where no time is known, the one that was executed most often. A function that is compiled anew for each
    call makes steps that no program of it shows: where it keeps the device longer, there is none.
    """
    programs = np.unique(run.executions["program"]).tolist()
    calls = {p: _on_its_device(run, p) for p in programs if run.devices_of(p)}
    lengths = {p: int((mine["end_ns"] - mine["begin_ns"]).sum()) for p, mine in calls.items()}
    often = [p for p, mine in calls.items() if len(mine) >= _FEWEST_CALLS]
    found = max(often, key=lambda p: (lengths[p], len(calls[p])), default=None)
    of_function: dict[str, list[ProgramRecord]] = defaultdict(list)
    for record in records:
        if record.number in calls:
            of_function[record.name].append(record)
    for name, own in of_function.items():
        numbers = {record.number for record in own}
        count = sum(len(calls[p]) for p in numbers)
        is_longer = found is None or sum(lengths[p] for p in numbers) > lengths[found]
        is_anew = count >= _FEWEST_CALLS and is_longer and not numbers & set(often)
        if is_anew and not is_operation(own[0]):
            return f"{name}, which keeps the device longest, has other shapes in most of its {count} calls"
    return "no program was executed repeatedly" if found is None else found


def _on_its_device(run: VirtualRun, program: int) -> np.ndarray:
    """The executions of a program on the first of its devices."""
    mine = run.executions[run.executions["program"] == program]
    return mine[(mine["device"] < 0) | (mine["device"] == run.devices_of(program)[0])]


def _steady(recording: Recording, events: np.ndarray) -> np.ndarray:
    """Which steps count, of those between executions at `events`."""
    compiles = np.flatnonzero(recording.events["kind"] == EventKind.COMPILE)
    until = np.searchsorted(compiles, events)
    steady = until[1:] == until[:-1]
    if steady.sum() > 1:
        steady[0] = False
    return np.flatnonzero(steady if steady.any() else np.ones(len(steady), bool))


def _summarize(
    run: VirtualRun, program: int, on_device: np.ndarray, at: np.ndarray, kept: np.ndarray
) -> Steps:
    lengths = np.diff(on_device["begin_ns"][at])[kept]
    fast, median, slow = np.percentile(lengths, (_SPREAD[0], 50, _SPREAD[1])) / _NS
    middle = kept[_nearest_half(lengths)]
    gaps = _idle(run, on_device)
    idle = IdleTime(**{name: _per_step(gap, at, middle, 1) for name, gap in gaps.items()})
    mean = _mean(np.diff(on_device["begin_ns"][at])[middle])
    steps = on_device[at]
    host = _host_times(run, steps)
    sent, read = (_traffic(run, steps["event"], middle, to_host=to) for to in (False, True))
    return Steps(
        program=program,
        device=run.devices_of(program)[0],
        count=len(kept),
        left_out=len(at) - 1 - len(kept),
        median_s=float(median),
        fast_s=float(fast),
        slow_s=float(slow),
        mean_s=mean,
        busy_s=_per_step(on_device["end_ns"] - on_device["begin_ns"], at, middle, 0),
        idle=idle,
        host_works_s=_mean(host[Doing.WORKING][middle]),
        host_blocked_s=_mean(host[Doing.BLOCKED][middle]),
        host_waits_s=_mean((host[Doing.WAITING] + host[Doing.QUEUEING])[middle]),
        to_device=sent,
        from_device=read,
        bound_by=_bound_by(idle, mean),
    )


def _bound_by(idle: IdleTime, step_s: float) -> BoundBy:
    """The device, unless it is idle for a noticeable part of the step; then what it waits for most."""
    parts = list(idle.parts())
    if sum(seconds for _, seconds in parts) < _IDLE_SHARE * step_s:
        return BoundBy.DEVICE
    return max(parts, key=lambda part: part[1])[0]


def _nearest_half(lengths: np.ndarray) -> np.ndarray:
    """The places of the half that is nearest to the median."""
    by_distance = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")
    return np.sort(by_distance[: (len(lengths) + 1) // 2])


def _mean(nanoseconds: np.ndarray) -> float:
    return float(nanoseconds.mean()) / _NS


def _per_step(values: np.ndarray, at: np.ndarray, steps: np.ndarray, shift: int) -> float:
    """The mean over `steps` of the sum of `values` from one execution of the step to the next.

    `shift` 1: of those behind the first execution, up to the next step's.
    """
    sums = np.concatenate([[0], np.cumsum(values)])
    return _mean(np.diff(sums[at + shift])[steps])


# ---- why the device was idle -------------------------------------------------------------------


def _idle(run: VirtualRun, on_device: np.ndarray) -> dict[str, np.ndarray]:
    """The gap before each execution of a device, by cause; nanoseconds."""
    begins = on_device["begin_ns"]
    free, dispatched = _until_dispatched(on_device)
    arrived = np.clip(np.maximum(on_device["asked_ns"], on_device["inputs_ns"]), dispatched, begins)
    doing = {kind: np.zeros(len(on_device), np.int64) for kind in Doing}
    for thread in np.unique(on_device["thread"]):
        mine = on_device["thread"] == thread
        spent = _Spent(run.stretches, thread)
        for kind in Doing:
            doing[kind][mine] = spent.between(kind, free[mine], dispatched[mine])
    host = doing[Doing.WORKING] + doing[Doing.BLOCKED] + doing[Doing.WAITING]
    return {
        "host_works_s": doing[Doing.WORKING],
        "host_blocked_s": doing[Doing.BLOCKED],
        "host_waits_s": doing[Doing.WAITING],
        "input_transfer_s": arrived - dispatched,
        "other_devices_s": begins - free - host - (arrived - dispatched),
    }


def _until_dispatched(on_device: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """When a device became free before each execution, and when that was dispatched, if later."""
    begins = on_device["begin_ns"]
    free = np.concatenate([begins[:1], on_device["end_ns"][:-1]])
    return free, np.clip(on_device["asked_ns"], free, begins)


class _Spent:
    """How long a thread did what, up to any time."""

    def __init__(self, stretches: np.ndarray, thread: int) -> None:
        self._mine = stretches[stretches["thread"] == thread]

    def between(self, kind: Doing, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """How much of each interval it spent so; nanoseconds."""
        some = self._mine[self._mine["doing"] == kind]
        if not len(some):
            return np.zeros(len(begin), np.int64)
        bounds = np.stack([some["begin_ns"], some["end_ns"]], axis=1).ravel()
        lengths = np.stack([np.zeros(len(some)), some["end_ns"] - some["begin_ns"]], axis=1).ravel()
        done = np.cumsum(lengths)
        spent = np.interp(end, bounds, done) - np.interp(begin, bounds, done)
        return np.rint(spent).astype(np.int64)


# ---- what else happens in a step ---------------------------------------------------------------


def _host_times(run: VirtualRun, steps: np.ndarray) -> dict[Doing, np.ndarray]:
    """What the thread that dispatched each step did until it dispatched the next; nanoseconds."""
    begin, end = steps["asked_ns"][:-1], steps["asked_ns"][1:]
    threads = steps["thread"][:-1]
    out = {kind: np.zeros(len(begin), np.int64) for kind in Doing}
    for thread in np.unique(threads):
        mine, spent = threads == thread, _Spent(run.stretches, thread)
        for kind in Doing:
            out[kind][mine] = spent.between(kind, begin[mine], end[mine])
    return out


def _traffic(run: VirtualRun, events: np.ndarray, steps: np.ndarray, *, to_host: bool) -> Traffic:
    """What crossed the links in one direction between the events at which steps were dispatched."""
    moved = run.transfers[run.transfers["to_host"] == to_host]
    step = np.searchsorted(events, moved["event"]) - 1
    inside = np.isin(step, steps)
    moved = moved[inside]
    seconds = (moved["end_ns"] - moved["begin_ns"]) / _NS
    by_device = [seconds[moved["device"] == d].sum() for d in np.unique(moved["device"])]
    return Traffic(
        bytes=float(moved["bytes"].sum()) / len(steps),
        seconds=None if run.untimed_bytes else float(max(by_device, default=0.0)) / len(steps),
    )
