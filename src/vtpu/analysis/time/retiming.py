"""How long a step would take if one resource were infinitely fast.

Operations that it bounds take what their next resource needs. The order of the schedule stays, and with it
what runs beside what: an operation of the core follows the one before, a transfer begins where it is
started or where the one that it queued behind ends, and the core waits for it at its end. So what the
core no longer covers becomes a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vtpu.analysis.time.accounting import Timelines
from vtpu.analysis.time.flights import Flights
from vtpu.analysis.time.timeline import CLOSE, Timeline
from vtpu.clock.program_time import Lane, OperationTime, Pass, ProgramTime, Span
from vtpu.clock.resources import Resource
from vtpu.program.modules import Instruction, Module


@dataclass(frozen=True, slots=True)
class Retimed:
    """A step without a resource: its seconds, and what bounds how much of it then."""

    seconds: float
    bounds: dict[Resource | None, float]


def bound_of(time: OperationTime) -> Resource | None:
    """What bounds an operation. The compiler's cycles do not say of what: then what would be next."""
    if time.bound is not Resource.COMPILER:
        return time.bound
    others = {r: s for r, s in time.busy.items() if r is not Resource.COMPILER}
    return max(others, key=lambda r: others[r], default=Resource.COMPILER)


def next_bound_of(time: OperationTime) -> tuple[Resource | None, float]:
    """What bounds an operation without what bounds it now, and the part of its time that it then takes."""
    bound = bound_of(time)
    whole = max(time.busy.values(), default=0.0)
    others = {r: s for r, s in time.busy.items() if r not in (bound, Resource.COMPILER)}
    if not others or not whole:
        return None, 0.0
    second = max(others, key=lambda r: others[r])
    return second, others[second] / whole


def step_without(
    module: Module, time: ProgramTime, timelines: Timelines, resource: Resource | None
) -> Retimed:
    """The step without a resource; with None as it is."""
    retiming = _Retiming(module, time, timelines, resource)
    seconds = retiming.through(time.entry)
    return Retimed(seconds, retiming.bounds_of(time.entry))


@dataclass
class _Pass:
    """Where one pass stands."""

    flights: Flights
    now: float = 0.0
    ends: dict[int, float] = field(default_factory=dict[int, float])
    bounds: dict[Resource | None, float] = field(default_factory=dict[Resource | None, float])

    def bound(self, resource: Resource | None, seconds: float) -> None:
        if seconds > CLOSE:
            self.bounds[resource] = self.bounds.get(resource, 0.0) + seconds


class _Retiming:
    def __init__(
        self, module: Module, time: ProgramTime, timelines: Timelines, removed: Resource | None
    ) -> None:
        self._module = module
        self._time = time
        self._timelines = timelines
        self._removed = removed
        self._done: dict[int, _Pass] = {}

    def through(self, computation: int) -> float:
        """Seconds of one pass."""
        if computation not in self._done:
            state = _Pass(Flights(self._module))
            one = self._time.passes[computation]
            timeline = self._timelines.of(computation)
            spans = {s.instruction: s for s in one.spans}
            for instruction in self._module.computations[computation].instructions:
                self._step(state, one, timeline, instruction, spans.get(instruction.id))
                for start in state.flights.end(instruction):
                    self._wait(state, start)
            self._done[computation] = state
        return self._done[computation].now

    def bounds_of(self, computation: int) -> dict[Resource | None, float]:
        """Seconds of one pass by what bounds them."""
        return self._done[computation].bounds

    def _step(
        self,
        state: _Pass,
        one: Pass,
        timeline: Timeline,
        instruction: Instruction,
        span: Span | None,
    ) -> None:
        if span is not None and instruction.id in one.inner:
            self._call(state, one, span)
        elif span is not None and span.lane is Lane.CORE:
            self._compute(state, span)
        elif span is not None:
            self._beside(state, timeline, instruction, span)

    def _call(self, state: _Pass, one: Pass, span: Span) -> None:
        called, each = one.inner[span.instruction]
        times = (span.end - span.start) / each if each else 0.0
        own = span.end - span.start - times * self._time.passes[called].seconds
        seconds = self.through(called)
        for resource, part in self.bounds_of(called).items():
            state.bound(resource, times * part)
        state.bound(None, own)
        state.now += times * seconds + own

    def _compute(self, state: _Pass, span: Span) -> None:
        seconds, bound = self._shortened(span)
        state.bound(bound, seconds)
        state.now += seconds

    def _beside(
        self, state: _Pass, timeline: Timeline, instruction: Instruction, span: Span
    ) -> None:
        seconds, _ = self._shortened(span)
        behind = timeline.queued.get(instruction.id)
        begin = max(state.now, state.ends.get(behind, 0.0) if behind is not None else 0.0)
        state.ends[instruction.id] = begin + seconds
        if not state.flights.begin(instruction):
            self._wait(state, instruction.id)

    def _wait(self, state: _Pass, start: int) -> None:
        waited = state.ends.get(start, state.now) - state.now
        operation = self._time.operations.get(start)
        state.bound(bound_of(operation) if operation else None, waited)
        state.now += max(0.0, waited)

    def _shortened(self, span: Span) -> tuple[float, Resource | None]:
        """How long an operation takes without the resource, and what bounds it then."""
        seconds = span.end - span.start
        operation = self._time.operations.get(span.instruction)
        if operation is None:
            return seconds, None
        bound = bound_of(operation)
        if self._removed is None or bound is not self._removed:
            return seconds, bound
        bound, part = next_bound_of(operation)
        return seconds * part, bound
