"""Results that are an operand with a part replaced, in the operand's own memory."""

from __future__ import annotations

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import Shape
from vtpu.program.work.collectives import COLLECTIVES

UPDATES = ("dynamic-update-slice", "scatter")


def updates_behind(
    module: Module, value: Instruction, index: tuple[int, ...] = ()
) -> tuple[tuple[Instruction, ...], int | None] | None:
    """The updates that make a value out of a parameter of its computation, and the parameter's number.

    None for a value that has memory of its own, because something computes all of it. What a collective
    receives is not written by the computation that it is in: then the number is None.
    """
    found: list[Instruction] = []
    while value.parameter_number is None:
        if value.opcode == "tuple" and index:
            value, index = module.by_id[value.operands[index[0]]], index[1:]
        elif value.opcode == "get-tuple-element":
            value, index = module.by_id[value.operands[0]], (value.tuple_index or 0, *index)
        elif value.opcode == "bitcast":
            value = module.by_id[value.operands[0]]
        elif value.opcode == "fusion":
            root = module.by_id[module.computations[value.called[0]].root]
            inner = updates_behind(module, root, index)
            if inner is None:
                return None
            found += inner[0]
            if inner[1] is None:
                return tuple(found), None
            value, index = module.by_id[value.operands[inner[1]]], ()
        elif value.opcode in UPDATES:
            found.append(value)
            value, index = module.by_id[value.operands[index[0] if index else 0]], ()
        else:
            return (tuple(found), None) if value.opcode in COLLECTIVES else None
    return tuple(found), value.parameter_number


def replacement(module: Module, update: Instruction, number: int = 0) -> Shape:
    """The shape of what an update writes into its operand number `number`.

    A scatter has its operands, the indices, and as many updates in a row.
    """
    place = 1 if update.opcode == "dynamic-update-slice" else len(update.operands) // 2 + 1 + number
    return module.by_id[update.operands[place]].shape
