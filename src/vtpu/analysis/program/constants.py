"""Large constants of a program: arrays that are part of it instead of being passed to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine, UserLines
from vtpu.program.modules import Computation, Module
from vtpu.program.shapes import ArrayShape

LEAST_BYTES = 1 << 20
"""A smaller constant is a part of the computation: a mask, positions, a few coefficients."""

_MOST_MOVES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeConstant:
    """An array in a program's code. `line` is the user's that computes with it."""

    shape: ArrayShape
    line: SourceLine

    @property
    def bytes(self) -> int:
        """Bytes that it takes, padding included."""
        return self.shape.padded_bytes

    @property
    def dims_text(self) -> str:
        """Its shape for people, without its layout: `f32[8,128]`."""
        return f"{self.shape.element_type.xla_name}[{','.join(map(str, self.shape.dims))}]"


def large_constants(module: Module, lines: UserLines) -> tuple[LargeConstant, ...]:
    """The constants of at least `LEAST_BYTES`, largest first."""
    found = [
        c for each in module.computations.values() for c in _of_computation(module, each, lines)
    ]
    return tuple(sorted(found, key=lambda c: (-c.bytes, c.line)))


def _of_computation(
    module: Module, computation: Computation, lines: UserLines
) -> Iterator[LargeConstant]:
    for instruction in computation.instructions:
        shape = instruction.shape
        if instruction.opcode != "constant" or not isinstance(shape, ArrayShape):
            continue
        if shape.padded_bytes >= LEAST_BYTES:
            line = _line_of_use(module, computation, instruction.id, lines)
            yield LargeConstant(shape=shape, line=line)


def _line_of_use(
    module: Module, computation: Computation, number: int, lines: UserLines
) -> SourceLine:
    """The line of the first instruction that takes a value and has a place; of copies, that of theirs."""
    reached = {number}
    for instruction in computation.instructions:
        if reached.isdisjoint(instruction.operands):
            continue
        line = lines.line(source_of(module, instruction).frames)
        if line.line:
            return line
        if len(reached) < _MOST_MOVES:
            reached.add(instruction.id)
    return UNKNOWN_LINE
