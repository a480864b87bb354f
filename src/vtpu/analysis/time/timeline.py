"""What the core does from the first to the last instant of one pass through a computation.

The core runs operations in the order of the schedule. A pass is cut into segments without holes: an
operation of the core, a wait for what runs beside it, or a computation that is called, as a loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vtpu.analysis.time.flights import Flights
from vtpu.clock.program_time import Lane, Pass, Span
from vtpu.program.modules import Instruction, Module

#: Seconds that rounding makes of the same instant.
CLOSE = 1e-12


class Kind(StrEnum):
    """What the core does."""

    COMPUTE = "computes"
    WAIT = "waits"
    CALL = "calls"
    IDLE = "is idle"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a pass. `instruction` is what the core runs, calls or waits for; 0 when it is idle."""

    kind: Kind
    instruction: int
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Timeline:
    """A pass as the core has it. `queued` are operations beside the core that began only when another
    one on their lane had ended: that one, by instruction.
    """

    segments: tuple[Segment, ...]
    queued: dict[int, int]


def timeline_of(module: Module, one: Pass) -> Timeline:
    """The segments of a pass, one after the other from 0 to its end."""
    cut = _Cutting(module, one)
    for instruction in module.computations[one.computation].instructions:
        cut.step(instruction)
    return cut.timeline()


class _Cutting:
    """Goes through a computation as the core does."""

    def __init__(self, module: Module, one: Pass) -> None:
        self._pass = one
        self._spans = {s.instruction: s for s in one.spans}
        self._flights = Flights(module)
        self._lanes: dict[Lane, list[Span]] = {}
        self._segments: list[Segment] = []
        self._queued: dict[int, int] = {}
        self._now = 0.0

    def step(self, instruction: Instruction) -> None:
        """What an instruction has the core do."""
        span = self._spans.get(instruction.id)
        if span is not None and instruction.id in self._pass.inner:
            self._add(Kind.CALL, span, span.start)
        elif span is not None and span.lane is Lane.CORE:
            self._add(Kind.COMPUTE, span, span.start)
        elif span is not None:
            self._beside(instruction, span)
        for start in self._flights.end(instruction):
            if (awaited := self._spans.get(start)) is not None and awaited.waited > 0:
                self._add(Kind.WAIT, awaited, awaited.end - awaited.waited)

    def _beside(self, instruction: Instruction, span: Span) -> None:
        """A collective without start and done keeps the core waiting."""
        if span.start > self._now + CLOSE:
            before = self._lanes.get(span.lane, [])
            behind = (s for s in reversed(before) if abs(s.end - span.start) <= CLOSE)
            if (found := next(behind, None)) is not None:
                self._queued[instruction.id] = found.instruction
        self._lanes.setdefault(span.lane, []).append(span)
        if not self._flights.begin(instruction):
            self._add(Kind.WAIT, span, self._now)

    def _add(self, kind: Kind, span: Span, begin: float) -> None:
        if begin > self._now + CLOSE:
            self._segments.append(Segment(Kind.IDLE, 0, self._now, begin))
            self._now = begin
        self._segments.append(Segment(kind, span.instruction, self._now, span.end))
        self._now = span.end

    def timeline(self) -> Timeline:
        """All of it, to the end of the pass."""
        if self._pass.seconds > self._now + CLOSE:
            self._segments.append(Segment(Kind.IDLE, 0, self._now, self._pass.seconds))
        return Timeline(tuple(self._segments), self._queued)


def repetitions(one: Pass, segment: Segment) -> tuple[int, float]:
    """The computation that a segment of kind CALL goes through, and how often."""
    called, each = one.inner[segment.instruction]
    return called, (segment.seconds / each if each else 0.0)
