"""HBM over a run under an allocator: the answer of `vtpu replay`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.replay.addresses import in_the_way
from vtpu.analysis.replay.allocators import AllocatorChoice, AllocatorFacts, Variation
from vtpu.analysis.replay.obstacles import HeldArray, held_arrays
from vtpu.analysis.replay.replay import OWN_OUTPUT, Replay, ReplayFailure, replay
from vtpu.analysis.replay.requests import Requests, holders, requests_of
from vtpu.analysis.replay.what_if_context import Context
from vtpu.analysis.replay.what_ifs import MOST_UNASKED, WhatIf, find_what_ifs
from vtpu.analysis.run.memory import AliveGroup, alive_at, local_devices
from vtpu.analysis.run.summary import RunFacts, problems_of, run_facts
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.errors import UsageError
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

_FRAGMENTED = 0.25
_NUM_MOMENTS = 12
_NUM_POINTS = 400
_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """HBM of a device just after an event of the recording. Bytes; seconds since it began.

    `reserved_bytes`: temporaries of the program that runs. `free_bytes`, `largest_free_bytes` and
    `reservable_bytes` are without it; `fragmentation` = 1 - largest free / free.
    """

    event: int
    time_s: float
    line: SourceLine
    program: str | None
    in_use_bytes: int
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int
    reservable_bytes: int
    fragmentation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """A request that found no room. `lack`: `bytes`, or `contiguous bytes` where enough were free but
    not in one piece.

    `is_recorded`: it found none in the recorded run either. `in_the_way`: the arrays without which it
    would have found room in one piece. `alive`: everything that was in use. Both only of the first.
    """

    event: int
    time_s: float
    line: SourceLine
    program: str | None
    wanted_bytes: int
    free_bytes: int
    largest_free_bytes: int
    reservable_bytes: int
    is_reservation: bool
    lack: str
    is_recorded: bool
    in_the_way: tuple[HeldArray, ...]
    alive: tuple[AliveGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """The same replay with one assumption changed. Bytes; the lowest values over the run."""

    what: str
    failures: int
    first_failure_line: SourceLine | None
    first_failure_lack: str | None
    lowest_reservable_bytes: int | None
    highest_fragmentation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReplay:
    """HBM over the run of the devices that asked for the same. Bytes.

    `fitted`: requests that found no room in the recorded run and find it here; what the program would
    have done then is not known. `is_cut`: the replay ends at a failure that the recorded run did not
    have. `moments`: the fullest of each of equal parts of the run; `series`: the same in finer parts.
    `what_ifs` are about the first failure or, without one, about the moment `worst` if memory is in
    pieces then. They, without a failure, and `varied` are null where the run is too long to try.
    """

    devices: tuple[int, ...]
    requests: int
    replayed: int
    peak_bytes: int
    peak: Moment | None
    worst: Moment | None
    lowest_largest_free_bytes: int | None
    lowest_reservable_bytes: int | None
    pool_bytes: int
    is_cut: bool
    fitted: int
    num_failures: int
    failures: tuple[RunFailure, ...]
    what_ifs: tuple[WhatIf, ...] | None
    varied: tuple[Varied, ...] | None
    moments: tuple[Moment, ...]
    series: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """A run replayed under an allocator.

    `not_compiled`: names of programs that did not compile in the recorded run, so that nothing of what
    they would have asked for is replayed.
    """

    run: RunFacts
    allocator: AllocatorFacts
    not_compiled: tuple[str, ...]
    devices: tuple[DeviceReplay, ...]
    problems: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether every request found room."""
        return not any(device.num_failures for device in self.devices)


def summarize_replay(recording: Recording, choice: AllocatorChoice) -> ReplaySummary:
    """Replays what each device of this host was asked for; devices that are alike once.

    Raises:
        UsageError: the recording holds no request of device memory.
    """
    lines = LineFinder(recording)
    streams = {d: requests_of(recording, d) for d in local_devices(recording)}
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for device, requests in streams.items():
        alike[requests.alike()].append(device)
    used = [devices for devices in alike.values() if len(streams[devices[0]])]
    if not used:
        raise UsageError(
            "there is nothing to replay: the recording holds no array and no program on a device"
        )
    names = {p.number: p.name for p in recording.programs}
    replays = (
        _DeviceRun(
            recording, choice, d[0], streams[d[0]], _times(recording, streams[d[0]]), lines, names
        ).summary(d)
        for d in used
    )
    return ReplaySummary(
        run=run_facts(recording),
        allocator=choice.facts,
        not_compiled=tuple(dict.fromkeys(p.name for p in recording.programs if p.error)),
        devices=tuple(replays),
        problems=problems_of(recording),
    )


def _times(recording: Recording, requests: Requests) -> np.ndarray:
    """An execution runs behind its outputs, but its event is from before them."""
    return np.maximum.accumulate(recording.events["time_ns"][requests.event])


@dataclass(frozen=True, slots=True)
class _DeviceRun:
    recording: Recording
    choice: AllocatorChoice
    device: int
    requests: Requests
    times: np.ndarray  # nanoseconds: when all up to each row had happened
    lines: LineFinder
    names: dict[int, str]

    def summary(self, devices: list[int]) -> DeviceReplay:
        result = replay(self.requests, self.choice.make())
        worst = int(np.argmax(result.fragmentation)) if len(result.in_use) else -1
        peak = result.peak_row
        return DeviceReplay(
            devices=tuple(devices),
            requests=len(self.requests),
            replayed=len(result.in_use),
            peak_bytes=result.peak_bytes,
            peak=self._moment(result, peak) if peak >= 0 else None,
            worst=self._moment(result, worst) if worst >= 0 else None,
            lowest_largest_free_bytes=_lowest(
                result.largest_free, (f.largest_free for f in result.failures)
            ),
            lowest_reservable_bytes=_lowest(
                result.reservable, (f.reservable for f in result.failures)
            ),
            pool_bytes=result.pool_bytes,
            is_cut=result.is_cut,
            fitted=result.fitted_attempts,
            num_failures=len(result.failures),
            failures=tuple(self._failure(f) for f in result.failures[:_MOST_FAILURES]),
            what_ifs=self._what_ifs(result, worst),
            varied=self._varied(),
            moments=self._fullest(result, _NUM_MOMENTS),
            series=self._fullest(result, _NUM_POINTS),
        )

    def _moment(self, result: Replay, row: int) -> Moment:
        number = int(result.requests.event[row])
        event = self.recording.events[number]
        return Moment(
            event=number,
            time_s=int(self.times[row]) / 1e9,
            line=self.lines.line(int(event["stack"])),
            program=self._program(number),
            in_use_bytes=int(result.in_use[row]),
            reserved_bytes=int(result.reserved[row]),
            free_bytes=int(result.free[row]),
            largest_free_bytes=int(result.largest_free[row]),
            reservable_bytes=int(result.reservable[row]),
            fragmentation=float(result.fragmentation[row]),
        )

    def _fullest(self, result: Replay, parts: int) -> tuple[Moment, ...]:
        """The fullest moment of each of `parts` parts of the run, by number of requests."""
        total = result.in_use + result.reserved
        rows = [part for part in np.array_split(np.arange(len(total)), parts) if len(part)]
        return tuple(self._moment(result, int(part[np.argmax(total[part])])) for part in rows)

    def _program(self, event: int) -> str | None:
        return self.names.get(int(self.recording.events["program"][event]))

    def _failure(self, failure: ReplayFailure) -> RunFailure:
        event = self.recording.events[failure.event]
        alive: tuple[AliveGroup, ...] = ()
        if failure.blocks:
            alive = alive_at(self.recording, self.device, self._time_of(failure), self.lines)
        return RunFailure(
            event=failure.event,
            time_s=int(event["time_ns"]) / 1e9,
            line=self.lines.line(int(event["stack"])),
            program=self._program(failure.event),
            wanted_bytes=failure.wanted,
            free_bytes=failure.free,
            largest_free_bytes=failure.largest_free,
            reservable_bytes=failure.reservable,
            is_reservation=failure.is_reservation,
            lack=lack_of(lacks_bytes=failure.lacks_bytes),
            is_recorded=failure.is_recorded,
            in_the_way=self._in_the_way(failure),
            alive=alive,
        )

    def _time_of(self, failure: ReplayFailure) -> int:
        """The event before which all had happened: outputs are placed after their execution began."""
        before = self.requests.event[: failure.row]
        return max(failure.event, int(before[-1]) + 1 if len(before) else 0)

    def _in_the_way(self, failure: ReplayFailure) -> tuple[HeldArray, ...]:
        if failure.lacks_bytes or self.choice.has_regions:
            return ()
        at_bottom = failure.is_reservation and self.choice.is_two_ended
        limit = self.choice.facts.limit_bytes
        found = in_the_way(failure.blocks, failure.wanted, limit, at_bottom=at_bottom)
        rows = holders(self.recording, self.device, self._time_of(failure))
        known = [replace(b, block=rows[b.block]) for b in found if b.block in rows]
        own = [
            replace(b, block=self._own_row(failure.event, b.size))
            for b in found
            if b.block == OWN_OUTPUT
        ]
        return held_arrays(self.recording, [*known, *own], self.lines)

    def _own_row(self, event: int, size: int) -> int:
        """The row in which an output of the execution that failed at `event` was made; `event` itself
        where the recorded run did not come to make it.
        """
        events = self.recording.events
        row = event - 1
        while row >= 0 and events["kind"][row] == EventKind.ALLOCATE:
            is_here = events["device"][row] == self.device
            if is_here and events["bytes"][row] == size:
                return row
            row -= 1
        return event

    def _what_ifs(self, result: Replay, worst: int) -> tuple[WhatIf, ...] | None:
        """About the first failure, else about the worst moment if memory is in pieces then."""
        failed = bool(result.failures)
        if not failed and (worst < 0 or result.fragmentation[worst] < _FRAGMENTED):
            return ()
        if not failed and len(self.requests) > MOST_UNASKED:
            return None
        row = result.failures[0].row if failed else worst
        run = Context(
            recording=self.recording,
            device=self.device,
            requests=(
                self.requests.until_failure(row)
                if failed
                else self.requests.take(np.arange(row + 1))
            ),
            event=int(self.requests.event[row]),
            lines=self.lines,
        )
        return find_what_ifs(run, self.choice.make, failed=failed)

    def _varied(self) -> tuple[Varied, ...] | None:
        if len(self.requests) > MOST_UNASKED:
            return None
        return tuple(self._vary(variation) for variation in self.choice.variations)

    def _vary(self, variation: Variation) -> Varied:
        result = replay(self.requests, variation.make())
        first = result.failures[0] if result.failures else None
        event = self.recording.events[first.event] if first else None
        return Varied(
            what=variation.what,
            failures=len(result.failures),
            first_failure_line=self.lines.line(int(event["stack"])) if event is not None else None,
            first_failure_lack=lack_of(lacks_bytes=first.lacks_bytes) if first else None,
            lowest_reservable_bytes=_lowest(
                result.reservable, (f.reservable for f in result.failures)
            ),
            highest_fragmentation=float(result.fragmentation.max()) if len(result.free) else None,
        )


def lack_of(*, lacks_bytes: bool) -> str:
    """What a request lacked, in words."""
    return "bytes" if lacks_bytes else "contiguous bytes"


def _lowest(column: np.ndarray, when_failed: Iterable[int]) -> int | None:
    """The least after a request or, with what its execution had placed already, at a failure."""
    values = np.append(column, np.fromiter(when_failed, np.int64))
    return int(values.min()) if len(values) else None
