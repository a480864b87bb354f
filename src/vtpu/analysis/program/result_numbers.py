"""Which result of a module a value is: results have numbers, their values stand somewhere inside."""

from __future__ import annotations

from collections.abc import Mapping

from vtpu.program.modules import Instruction, Module

_FORWARDS = {"bitcast", "copy-done", "async-done", "optimization-barrier"}
_LONGEST_CHAIN = 64

Value = tuple[int, tuple[int, ...]]
"""An instruction and where in its shape."""


def result_numbers(module: Module) -> Mapping[Value, tuple[int, ...]]:
    """The place in the module's result of each value that becomes one."""
    root = module.result()
    if root is None:
        return {}
    if root.opcode != "tuple":
        return dict.fromkeys(_origins(module, root.id, ()), ())
    found: dict[Value, tuple[int, ...]] = {}
    for number, operand in enumerate(root.operands):
        for origin in _origins(module, operand, ()):
            found.setdefault(origin, (number,))
    return found


def _origins(module: Module, number: int, index: tuple[int, ...]) -> list[Value]:
    """A value and the values that it only forwards."""
    chain: list[Value] = []
    for _ in range(_LONGEST_CHAIN):
        chain.append((number, index))
        instruction = module.by_id.get(number)
        following = _forwarded(instruction, index) if instruction else None
        if following is None:
            break
        number, index = following
    return chain


def _forwarded(instruction: Instruction, index: tuple[int, ...]) -> Value | None:
    if not instruction.operands:
        return None
    if instruction.opcode == "get-tuple-element":
        return instruction.operands[0], (instruction.tuple_index or 0, *index)
    if instruction.opcode == "tuple" and index and index[0] < len(instruction.operands):
        return instruction.operands[index[0]], index[1:]
    return (instruction.operands[0], index) if instruction.opcode in _FORWARDS else None
