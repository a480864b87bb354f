"""What the core does from the first to the last instant of one pass through a computation.

The core runs operations in the order of the schedule. A pass is cut into segments without holes: an
operation of the core, a wait for what runs beside it, or a computation that is called, as a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from vtpu.clock.program_time import Lane, Pass, Span
from vtpu.program.modules import Instruction, Module
from vtpu.program.work import Part, collective_in

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
    beside = [s for s in one.spans if _is_beside(module, s, one)]
    others = {s.instruction for s in beside}
    holding = [s for s in one.spans if s.instruction not in others]
    pieces = [_segment(s, one) for s in holding]
    pieces += [
        Segment(Kind.WAIT, s.instruction, s.end - s.waited, s.end) for s in beside if s.waited > 0
    ]
    queued = _queued(one, others)
    return Timeline(_closed(sorted(pieces, key=lambda p: (p.begin, p.end)), one.seconds), queued)


def _is_beside(module: Module, span: Span, one: Pass) -> bool:
    """Whether a span runs beside the core. A collective without start and done keeps the core waiting."""
    if span.lane is Lane.CORE or span.instruction in one.inner:
        return False
    instruction = module.by_id.get(span.instruction)
    return instruction is not None and is_asynchronous(module, instruction)


def _segment(span: Span, one: Pass) -> Segment:
    kind = Kind.COMPUTE if span.lane is Lane.CORE else Kind.WAIT
    if span.instruction in one.inner:
        kind = Kind.CALL
    return Segment(kind, span.instruction, span.start, span.end)


def _closed(pieces: list[Segment], seconds: float) -> tuple[Segment, ...]:
    """The segments without holes: before a wait the core waits already, elsewhere it is idle."""
    found: list[Segment] = []
    now = 0.0
    for piece in pieces:
        is_hole = piece.begin > now + CLOSE
        if is_hole and piece.kind is not Kind.WAIT:
            found.append(Segment(Kind.IDLE, 0, now, piece.begin))
            now = piece.begin
        found.append(replace(piece, begin=now))
        now = piece.end
    if seconds > now + CLOSE:
        found.append(Segment(Kind.IDLE, 0, now, seconds))
    return tuple(found)


def _queued(one: Pass, beside: set[int]) -> dict[int, int]:
    """What began later than the core started it, and what ended on its lane at that instant.

    Spans come in the order in which the core comes to them, so it started it before its next operation.
    """
    found: dict[int, int] = {}
    lanes: dict[tuple[Lane, float], int] = {}
    next_begin = _next_begins(one, beside)
    for place, span in enumerate(one.spans):
        key = (span.lane, round(span.start / CLOSE))
        is_late = span.start > next_begin[place] + CLOSE or span.instruction not in beside
        if is_late and key in lanes:
            found[span.instruction] = lanes[key]
        if span.lane is not Lane.CORE:
            lanes[span.lane, round(span.end / CLOSE)] = span.instruction
    return found


def _next_begins(one: Pass, beside: set[int]) -> list[float]:
    """For each span when the core's next operation behind it begins."""
    begins: list[float] = []
    following = one.seconds
    for span in reversed(one.spans):
        begins.append(following)
        if span.instruction not in beside:
            following = span.start
    return begins[::-1]


def is_asynchronous(module: Module, instruction: Instruction) -> bool:
    """Whether an instruction only starts something, for which another one waits."""
    if instruction.opcode.endswith("-start"):
        return True
    part = collective_in(module, instruction)
    return part is not None and part.part is Part.START


def repetitions(one: Pass, segment: Segment) -> tuple[int, float]:
    """The computation that a segment of kind CALL goes through, and how often."""
    called, each = one.inner[segment.instruction]
    return called, (segment.seconds / each if each else 0.0)
