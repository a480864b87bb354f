"""Arrays that the compiler brings to VMEM in slices, side by side, and joins there."""

from __future__ import annotations

from vtpu.program.modules import Instruction, Module

#: The custom call by which XLA:TPU joins slices that lie one behind the other.
JOIN = "ConcatBitcast"
_STEPS = ("async-done", "async-update", "async-start", "bitcast", "slice")
_FARTHEST = 8  # steps from a slice back to the array


def whole_of(module: Module, join: Instruction) -> Instruction | None:
    """The array whose slices are joined; None where they are not all of one."""
    if join.custom_call_target != JOIN:
        return None
    found = {_array_of(module, number) for number in join.operands}
    return module.by_id.get(found.pop()) if len(found) == 1 else None


def _array_of(module: Module, number: int) -> int:
    """What a slice is taken of."""
    for _ in range(_FARTHEST):
        at = module.by_id.get(number)
        if at is None or at.opcode not in _STEPS or not at.operands:
            break
        number = at.operands[0]
    return number
