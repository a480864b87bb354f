"""Where an instruction comes from, also when the compiler gave it no source of its own.

Copies and prefetches that the compiler adds, and many fusions, have neither JAX's path nor a place.
What only moves a value comes from where the value does; a fusion comes from what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.program.locations import Frame
from vtpu.program.modules import Instruction, Module

#: Opcodes whose result is the value of their first operand, elsewhere or in another layout.
_MOVES = frozenset({
    "copy", "copy-start", "copy-done", "bitcast", "reshape", "transpose", "slice", "slice-start",
    "slice-done", "async-start", "async-update", "async-done", "optimization-barrier", "convert",
})  # fmt: skip
_FARTHEST = 64  # steps: chains of moves are short, and a module of another compiler may be anything


@dataclass(frozen=True, slots=True)
class Source:
    """JAX's path of an operation, and its stack, innermost frame first; each empty if unknown."""

    op_name: str
    frames: tuple[Frame, ...]


def source_of(module: Module, instruction: Instruction) -> Source:
    """Path and place of an instruction, each from the nearest one on its trail that has it.

    A path of one word, `reduce_sum`, is what inlining left of one, and says nothing.
    """
    paths = (i.op_name for i in _trail(module, instruction) if "/" in i.op_name)
    stacks = (module.frames(i) for i in _trail(module, instruction))
    return Source(
        op_name=next(paths, instruction.op_name),
        frames=next((s for s in stacks if any(f.line for f in s)), module.frames(instruction)),
    )


def _trail(module: Module, instruction: Instruction) -> Iterator[Instruction]:
    """The instruction, what its value was before it was moved, and what a fusion there computes.

    It ends at arguments, whose path is the user's name and no operation's.
    """
    found: Instruction | None = instruction
    for _ in range(_FARTHEST):
        if found is None or found.opcode == "parameter":
            return
        yield found
        if found.opcode == "fusion":
            yield from (i for i in _computed(module, found) if i.opcode != "parameter")
            return
        found = _moved(module, found)


def _computed(module: Module, fusion: Instruction) -> Iterator[Instruction]:
    """The instructions in a fusion, and in fusions within, from its result backwards."""
    waiting = _roots(module, fusion)
    seen = set(waiting)
    for number in waiting:
        instruction = module.by_id.get(number)
        if instruction is None:
            continue
        yield instruction
        behind = (*_roots(module, instruction), *instruction.operands)
        new = list(dict.fromkeys(n for n in behind if n not in seen))
        seen.update(new)
        waiting += new


def _roots(module: Module, instruction: Instruction) -> list[int]:
    """What the bodies of a fusion return."""
    called = instruction.called if instruction.opcode == "fusion" else ()
    return [body.root for number in called if (body := module.computations.get(number))]


def _moved(module: Module, instruction: Instruction) -> Instruction | None:
    """The instruction whose value this one moves."""
    if instruction.opcode not in _MOVES and instruction.opcode != "get-tuple-element":
        return None
    operand = module.by_id.get(instruction.operands[0]) if instruction.operands else None
    if operand is None or operand.opcode != "tuple" or instruction.tuple_index is None:
        return operand
    elements = operand.operands
    at = instruction.tuple_index
    return module.by_id.get(elements[at]) if at < len(elements) else None
