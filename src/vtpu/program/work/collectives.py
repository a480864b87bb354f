"""Collectives, wherever the compiler puts them.

A collective is an instruction of its own, a pair of start and done, or inside of a fusion. A fusion of
an `all-reduce` with a `dynamic-slice` is a reduce-scatter. In an *asynchronous collective fusion* one
fusion starts the collective, fusions behind it move it on beside what they compute themselves, and a
last one waits for the end: all have the same collective inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import Shape

COLLECTIVES = frozenset({
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute",
    "ragged-all-to-all", "reduce-scatter",
})  # fmt: skip
_STARTS_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")
_IS_ASYNCHRONOUS = b"async_collective_fusion_config"


class Part(StrEnum):
    """What of a collective an instruction does."""

    WHOLE = "whole"
    START = "start"
    CONTINUED = "continued"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CollectivePart:
    """A collective in an instruction: the instruction that names the devices, and what is done of it.

    `result` is what comes out of it: of an all-reduce whose result is cut at once, the parts.
    """

    collective: Instruction
    part: Part
    result: Shape

    @property
    def kind(self) -> str:
        """The opcode without `-start`; `reduce-scatter` of an all-reduce that is cut at once."""
        opcode = self.collective.opcode.removesuffix("-start").removesuffix("-done")
        is_cut = opcode == "all-reduce" and self.result != result_of(self.collective)
        return "reduce-scatter" if is_cut else opcode


def collective_in(module: Module, instruction: Instruction) -> CollectivePart | None:
    """The collective that an instruction is or has inside; None for others."""
    opcode = instruction.opcode
    if opcode in COLLECTIVES:
        return CollectivePart(instruction, Part.WHOLE, instruction.shape)
    if opcode.removesuffix("-start") in COLLECTIVES:
        return CollectivePart(instruction, Part.START, result_of(instruction))
    if opcode.removesuffix("-done") in COLLECTIVES:
        start = module.by_id[instruction.operands[0]]
        return CollectivePart(start, Part.DONE, instruction.shape)
    if opcode in ("async-start", "fusion"):
        return _inside(module, instruction)
    if opcode in ("async-done", "async-update"):
        before = collective_in(module, module.by_id[instruction.operands[0]])
        part = Part.DONE if opcode == "async-done" else Part.CONTINUED
        return before and CollectivePart(before.collective, part, before.result)
    return None


def result_of(collective: Instruction) -> Shape:
    """The result of a collective; some starts have (operands, results, context)."""
    shape = collective.shape
    if collective.opcode in _STARTS_WITH_OPERANDS and isinstance(shape, tuple) and len(shape) > 1:
        return shape[1]
    return shape


def _inside(module: Module, instruction: Instruction) -> CollectivePart | None:
    inner = module.computations[instruction.called[0]].instructions
    found = next((i for i in inner if i.opcode in COLLECTIVES), None)
    if found is None:
        return None
    if instruction.opcode == "async-start":
        return CollectivePart(found, Part.START, found.shape)
    if _IS_ASYNCHRONOUS in found.attributes:
        return CollectivePart(found, _part(inner), found.shape)
    is_cut = found.opcode == "all-reduce" and any(i.opcode == "dynamic-slice" for i in inner)
    return CollectivePart(found, Part.WHOLE, instruction.shape if is_cut else found.shape)


def _part(inner: tuple[Instruction, ...]) -> Part:
    targets = {i.custom_call_target for i in inner}
    if "AsyncCollectiveStart" in targets:
        return Part.START
    return Part.DONE if "AsyncCollectiveDone" in targets else Part.CONTINUED
