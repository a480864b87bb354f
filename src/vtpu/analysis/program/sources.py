"""Where an instruction comes from, also when the compiler gave it no source of its own.

Copies and prefetches that the compiler adds, and many fusions, have neither JAX's path nor a place.
What only moves a value comes from where the value does; a fusion comes from what it computes; and memory that is
set aside for the stacked results of a loop comes from what the loop writes there. Compilers before libtpu 0.0.50
keep of what they inline, a body of a scan, only the frames within; the loop that it stands in has the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.program.prefetches import whole_of
from vtpu.program.locations import Frame
from vtpu.program.modules import Instruction, Module

#: Opcodes whose result is the value of their first operand, elsewhere or in another layout.
_MOVES = frozenset({
    "copy", "copy-start", "copy-done", "bitcast", "reshape", "transpose", "slice", "slice-start",
    "slice-done", "async-start", "async-update", "async-done", "optimization-barrier", "convert",
})  # fmt: skip
_CONTROL_FLOW = frozenset({"while", "conditional", "call"})
#: The custom call by which XLA:TPU sets memory aside that a loop fills.
_SET_ASIDE = "AllocateBuffer"
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
    places = (i for i in _trail(module, instruction) if any(f.line for f in module.frames(i)))
    return Source(
        op_name=next(paths, instruction.op_name),
        frames=_whole_stack(module, next(places, instruction)),
    )


def _whole_stack(module: Module, instruction: Instruction) -> tuple[Frame, ...]:
    """The stack of an instruction, with the frames of the loops and branches around it."""
    frames = module.frames(instruction)
    around = module.callers.get(instruction.id)
    for _ in range(_FARTHEST):
        if around is None:
            break
        if around.opcode in _CONTROL_FLOW:
            frames = _joined(frames, module.frames(around))
        around = module.callers.get(around.id)
    return frames


def _joined(inner: tuple[Frame, ...], outer: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """One stack of two, where the inner one may have all, some or none of the outer one's frames."""
    if not outer or outer[-1] in inner:
        return inner
    shared = (n for n in range(min(len(inner), len(outer)), 0, -1) if inner[-n:] == outer[:n])
    return inner + outer[next(shared, 0) :]


def _trail(module: Module, instruction: Instruction) -> Iterator[Instruction]:
    """The instruction, what its value was before it was moved, and what a fusion there computes.

    It ends at arguments, whose path is the user's name and no operation's.
    """
    found: Instruction | None = instruction
    for _ in range(_FARTHEST):
        if found is None or found.opcode == "parameter":
            return
        if filled := filled_by(module, found):
            found = filled
            continue
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
    if whole := whole_of(module, instruction):
        return whole
    if instruction.opcode not in _MOVES and instruction.opcode != "get-tuple-element":
        return None
    operand = module.by_id.get(instruction.operands[0]) if instruction.operands else None
    if operand is None or operand.opcode != "tuple" or instruction.tuple_index is None:
        return operand
    elements = operand.operands
    at = instruction.tuple_index
    return module.by_id.get(elements[at]) if at < len(elements) else None


def filled_by(module: Module, memory: Instruction) -> Instruction | None:
    """What a loop writes in its turns into memory that is set aside; None where no loop does."""
    if memory.custom_call_target != _SET_ASIDE:
        return None
    around = module.callers.get(memory.id)
    for number in around.called if around else (module.entry,):
        computation = module.computations.get(number)
        instructions = computation.instructions if computation else ()
        starts = [i for i in instructions if i.opcode == "tuple" and memory.id in i.operands]
        for start in starts:
            loops = (i for i in instructions if i.opcode == "while" and start.id in i.operands)
            if loop := next(loops, None):
                return _element_of_body(module, loop, start.operands.index(memory.id))
    return None


def _element_of_body(module: Module, loop: Instruction, at: int) -> Instruction | None:
    body = module.computations.get(loop.called[0]) if loop.called else None
    root = module.by_id.get(body.root) if body else None
    if root is None or root.opcode != "tuple" or at >= len(root.operands):
        return None
    return module.by_id.get(root.operands[at])
