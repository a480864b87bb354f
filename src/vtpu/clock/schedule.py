"""Walks a program's schedule: the core in order, copies and collectives beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtpu.clock.costs import Cost, Costs
from vtpu.clock.facts import Facts
from vtpu.clock.program_time import Lane, Pass, Span
from vtpu.clock.resources import Resource
from vtpu.program.modules import Instruction
from vtpu.program.work import Part

_LOOPS = "while"
_CALLS = ("call", "conditional")
_STARTS = ("send", "recv")  # whose ends are send-done and recv-done
_LANE_RESOURCES = {
    Lane.MEMORY: Resource.HBM,
    Lane.LINKS: Resource.ICI,
    Lane.NETWORK: Resource.DCN,
    Lane.TO_HOST: Resource.HOST_LINK,
    Lane.FROM_HOST: Resource.HOST_LINK,
}


@dataclass(slots=True)
class _State:
    """Where one pass stands: the core's clock, when each lane is free, what is in flight."""

    now: float = 0.0
    free: dict[object, float] = field(default_factory=dict[object, float])
    in_flight: dict[int, int] = field(default_factory=dict[int, int])
    spans: list[Span] = field(default_factory=list[Span])
    exposed: dict[Resource, float] = field(default_factory=dict[Resource, float])
    inner: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])

    def expose(self, resource: Resource, seconds: float) -> None:
        if seconds > 0:
            self.exposed[resource] = self.exposed.get(resource, 0.0) + seconds


class Schedule:
    """Passes through the computations of a module.

    A loop of which nothing tells how often it runs is taken to run once.
    """

    def __init__(self, facts: Facts, costs: Costs) -> None:
        self._facts = facts
        self._module = facts.module
        self._costs = costs
        self.passes: dict[int, Pass] = {}
        self.exposed: dict[int, Mapping[Resource, float]] = {}

    def run(self, computation: int) -> float:
        """Seconds of one pass through a computation, everything that it calls included."""
        if computation not in self.passes:
            state = _State()
            for instruction in self._module.computations[computation].instructions:
                self._step(state, instruction)
            self.passes[computation] = Pass(
                computation, state.now, tuple(state.spans), dict(state.inner)
            )
            self.exposed[computation] = state.exposed
        return self.passes[computation].seconds

    def _step(self, state: _State, instruction: Instruction) -> None:
        opcode = instruction.opcode
        part = self._facts.collective(instruction)
        if opcode == _LOOPS:
            self._loop(state, instruction)
        elif opcode in _CALLS and instruction.called:
            self._call(state, instruction)
        elif opcode.endswith("-start") or opcode in _STARTS or (part and part.part is Part.START):
            self._start(state, instruction)
        else:
            self._compute(state, instruction)
            self._hand_on(state, instruction, part.part if part else None)

    def _hand_on(self, state: _State, instruction: Instruction, part: Part | None) -> None:
        """What is in flight ends here, or goes on under another name."""
        for source in dict.fromkeys(self._source(operand) for operand in instruction.operands):
            if source not in state.in_flight:  # begun in another computation, or without a model
                continue
            if part is Part.DONE or instruction.opcode.endswith("-done"):
                self._wait(state, source)
            elif part is Part.CONTINUED or instruction.opcode.endswith("-update"):
                state.in_flight[instruction.id] = state.in_flight.pop(source)

    def _source(self, number: int) -> int:
        """The instruction that makes a value, behind the tuples that it is handed on in."""
        instruction = self._module.by_id[number]
        if instruction.opcode == "get-tuple-element":
            return self._source(instruction.operands[0])
        return number

    def _loop(self, state: _State, instruction: Instruction) -> None:
        body, condition = instruction.called[:2]
        trips = self._facts.trips.get(instruction.id)
        each = self.run(body) + self.run(condition)
        self._enter(state, instruction, body, 1 if trips is None else trips, each)

    def _call(self, state: _State, instruction: Instruction) -> None:
        """Of a conditional's branches the longest is taken."""
        called = max(instruction.called, key=self.run)
        self._enter(state, instruction, called, 1, self.run(called))

    def _enter(
        self, state: _State, instruction: Instruction, called: int, times: int, each: float
    ) -> None:
        end = state.now + times * each
        state.spans.append(Span(instruction.id, Lane.CORE, state.now, end))
        state.inner[instruction.id] = (called, each)
        for resource, seconds in self.exposed[called].items():
            state.expose(resource, times * seconds)
        state.now = end

    def _compute(self, state: _State, instruction: Instruction) -> None:
        """On the core; a collective without start and done keeps it waiting for the links."""
        cost = self._costs.of(instruction)
        if not cost.seconds:
            return
        begin = state.now
        if cost.lane is not Lane.CORE:
            begin = max(begin, *(state.free.get(key, 0.0) for key in _keys(cost)))
            self._occupy(state, cost, begin + cost.seconds)
            state.expose(_LANE_RESOURCES[cost.lane], begin + cost.seconds - state.now)
        state.now = begin + cost.seconds
        state.spans.append(Span(instruction.id, cost.lane, begin, state.now))

    def _start(self, state: _State, instruction: Instruction) -> None:
        cost = self._costs.of(instruction)
        if cost.seconds is None:
            return
        begin = max(state.now, *(state.free.get(key, 0.0) for key in _keys(cost)))
        end = begin + cost.seconds
        self._occupy(state, cost, end)
        state.in_flight[instruction.id] = len(state.spans)
        state.spans.append(Span(instruction.id, cost.lane, begin, end))

    def _wait(self, state: _State, start: int) -> None:
        place = state.in_flight.pop(start)
        span = state.spans[place]
        waited = max(0.0, span.end - state.now)
        if waited:
            state.spans[place] = Span(span.instruction, span.lane, span.start, span.end, waited)
            state.expose(_LANE_RESOURCES[span.lane], waited)
            state.now = span.end

    def _occupy(self, state: _State, cost: Cost, end: float) -> None:
        for key in _keys(cost):
            state.free[key] = end


def _keys(cost: Cost) -> tuple[object, ...]:
    """What an operation beside the core has for itself: links along axes, or its whole lane."""
    links = cost.collective.links if cost.collective else ()
    return tuple(links) or (cost.lane,)
