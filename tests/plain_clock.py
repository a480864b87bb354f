"""A model of time that is simple enough to check by hand: every operation moves its own bytes.

It stands in tests where the time of a program has to come from somewhere and it does not matter whence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from vtpu.clock.program_time import (
    Estimate,
    Lane,
    OperationTime,
    Pass,
    ProgramTime,
    Source,
    Span,
)
from vtpu.clock.resources import Resource
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape, leaves

BYTES_PER_S = 1e11
FLOPS_PER_S = 1e13
_NOTHING_TO_DO = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
_CALLS = {"while", "call", "conditional"}
_COLLECTIVES = ("all-", "reduce-scatter", "collective-")


def plain_time(module: Module, trips: int = 3) -> ProgramTime:
    """The time of a module whose loops all make `trips` passes."""
    made = _Maker(module, trips)
    entry = made.pass_of(module.entry)
    total = entry.seconds
    flops = sum(int(o.flops or 0) * int(o.runs) for o in made.operations.values())
    moved = sum(int(o.hbm_bytes or 0) * int(o.runs) for o in made.operations.values())
    return ProgramTime(
        total=Estimate(total, total * 0.9, total * 1.2),
        core_busy=total,
        exposed={},
        operations=made.operations,
        passes=made.passes,
        entry=module.entry,
        without_model=(),
        unmodelled_flops=0,
        unmodelled_bytes=0,
        flops=flops,
        hbm_bytes=moved,
        peak_flops_per_s=FLOPS_PER_S,
        hbm_bytes_per_s=BYTES_PER_S,
        calibration="plain",
    )


@dataclass
class _Maker:
    module: Module
    trips: int
    operations: dict[int, OperationTime] = field(default_factory=dict[int, OperationTime])
    passes: dict[int, Pass] = field(default_factory=dict[int, Pass])

    def pass_of(self, number: int, runs: float = 1) -> Pass:
        computation = self.module.computations[number]
        at = 0.0
        spans: list[Span] = []
        inner: dict[int, tuple[int, float]] = {}
        begun: dict[int, float] = {}
        for instruction in computation.instructions:
            if instruction.opcode in _NOTHING_TO_DO:
                continue
            if instruction.opcode in _CALLS and instruction.called:
                self._note(instruction, runs, None)
                count = self.trips if instruction.opcode == "while" else 1
                body = self.pass_of(instruction.called[0], runs * count)
                inner[instruction.id] = (instruction.called[0], body.seconds)
                spans.append(Span(instruction.id, Lane.CORE, at, at + body.seconds * count))
                at += body.seconds * count
            elif instruction.opcode.endswith("-start"):
                begun[instruction.id] = at
                self._note(instruction, runs, None)
            elif instruction.opcode.endswith("-done") and instruction.operands[0] in begun:
                at = self._finish(computation, instruction, begun, at, spans)
            else:
                seconds = max(_bytes(instruction) / BYTES_PER_S, 1e-7)
                self._note(instruction, runs, seconds)
                spans.append(Span(instruction.id, Lane.CORE, at, at + seconds))
                at += seconds
        self.passes[number] = Pass(number, at, tuple(spans), inner)
        return self.passes[number]

    def _finish(
        self,
        computation: Computation,
        done: Instruction,
        begun: dict[int, float],
        at: float,
        spans: list[Span],
    ) -> float:
        """A transfer beside the core: it takes its time, and the core waits for the rest of it."""
        start = next(i for i in computation.instructions if i.id == done.operands[0])
        end = max(at, begun[start.id] + _bytes(done) / BYTES_PER_S)
        is_collective = start.opcode.startswith(_COLLECTIVES)
        lane = Lane.LINKS if is_collective else Lane.MEMORY
        spans.append(Span(start.id, lane, begun[start.id], end, end - at))
        return end

    def _note(self, instruction: Instruction, runs: float, seconds: float | None) -> None:
        """What an operation does; of one that only begins or calls others nothing of its own."""
        self.operations[instruction.id] = OperationTime(
            instruction=instruction.id,
            computation=0,
            runs=runs,
            time=Estimate(seconds, seconds * 0.9, seconds * 1.2) if seconds else None,
            bound=Resource.HBM,
            source=Source.WORK,
            flops=2 * _elements(instruction) if seconds else None,
            hbm_bytes=_bytes(instruction) if seconds else None,
        )


def _arrays(instruction: Instruction) -> list[ArrayShape]:
    return [s for _, s in leaves(instruction.shape) if isinstance(s, ArrayShape)]


def _bytes(instruction: Instruction) -> int:
    return sum(shape.padded_bytes for shape in _arrays(instruction))


def _elements(instruction: Instruction) -> int:
    return sum(prod(shape.dims) for shape in _arrays(instruction))
