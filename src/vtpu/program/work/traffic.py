"""What an instruction reads and writes, in padded bytes by memory space.

A fusion reads its operands and writes its results; what is between them stays in registers. Of an
operand from which it only takes slices, or gathers rows, only these count. A result that is an operand
with a part replaced (`dynamic-update-slice`, `scatter`) is that operand's memory: only the part is
written. Reading one scalar is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.work.amounts import added_spaces
from vtpu.program.work.collectives import COLLECTIVES
from vtpu.program.work.updates import UPDATES, replacement, updates_behind

_VIEWS = ("bitcast", "get-tuple-element")
_TAKERS = ("dynamic-slice", "gather")

#: Users of a value, each with the place among its operands.
_Users = dict[int, list[tuple[Instruction, int]]]


def read_by(module: Module, instruction: Instruction) -> dict[int, int]:
    """Bytes that an instruction reads, by the memory space that they are in."""
    reading = _Reading(module, _in_place(module, instruction))
    parts: list[dict[int, int]] = []
    seen: set[int] = set()
    for number, operand in enumerate(instruction.operands):
        if instruction.opcode != "fusion" and operand in seen:
            continue  # a value that is given twice is read once
        seen.add(operand)
        shape = module.by_id[operand].shape
        parts.append(_in_spaces(shape, reading.taken(instruction, number, shape)))
    if instruction.opcode == "fusion":
        parts += [_in_spaces(shape, None) for shape in _arrays_inside(module, instruction)]
    return added_spaces(parts)


def written_by(module: Module, instruction: Instruction) -> dict[int, int]:
    """Bytes that an instruction writes, by the memory space that they go to."""
    parts: list[dict[int, int]] = []
    for index, shape in leaves(instruction.shape):
        if isinstance(shape, ArrayShape):
            updates = _updates(module, instruction, index)
            size = shape.padded_bytes
            if updates is not None:
                size = min(size, sum(padded_bytes(replacement(module, u)) for u in updates))
            parts.append({shape.layout.memory_space: size})
    return added_spaces(parts)


def taken_by(module: Module, user: Instruction, number: int) -> int | None:
    """Bytes that an instruction takes of its operand number `number`; None: it reads all of it."""
    shape = module.by_id[user.operands[number]].shape
    return _Reading(module, _in_place(module, user)).taken(user, number, shape)


def padded_bytes(shape: Shape) -> int:
    """Bytes of all arrays in a shape."""
    if isinstance(shape, ArrayShape):
        return shape.padded_bytes
    return sum(s.padded_bytes for _, s in leaves(shape) if isinstance(s, ArrayShape))


def _updates(
    module: Module, instruction: Instruction, index: tuple[int, ...]
) -> tuple[Instruction, ...] | None:
    """The updates in place that make the result at `index`; None for a result that is new.

    A fusion that hands on an operand has no updates: both are the same memory.
    """
    if instruction.opcode in UPDATES:
        return (instruction,)
    if instruction.opcode != "fusion":
        return None
    root = module.by_id[module.computations[instruction.called[0]].root]
    behind = updates_behind(module, root, index)
    if behind is None or not (behind[0] or index):  # a fusion of nothing but a parameter copies it
        return None
    return behind[0]


def _in_place(module: Module, instruction: Instruction) -> frozenset[int]:
    results = (index for index, _ in leaves(instruction.shape))
    return frozenset(u.id for index in results for u in _updates(module, instruction, index) or ())


class _Reading:
    """How much each operand of an instruction is read, through fusions in fusions."""

    def __init__(self, module: Module, in_place: frozenset[int]) -> None:
        self._module = module
        self._in_place = in_place
        self._users: dict[int, tuple[dict[int, Instruction], _Users, int]] = {}

    def taken(self, user: Instruction, number: int, shape: Shape) -> int | None:
        """Bytes that `user` takes of its operand number `number`; None for all of it."""
        opcode = user.opcode
        if opcode == "fusion":
            parameters, users, root = self._inside(user)
            parameter = parameters.get(number)
            return self._of_value(parameter, users, root) if parameter else None
        if opcode == "slice" or (opcode in _TAKERS and number == 0):
            return min(padded_bytes(user.shape), padded_bytes(shape))
        if user.id not in self._in_place:
            return None
        if opcode == "dynamic-update-slice" and number == 0:
            return 0
        if opcode == "scatter" and number < len(user.operands) // 2:
            return min(padded_bytes(replacement(self._module, user, number)), padded_bytes(shape))
        return None

    def _of_value(self, value: Instruction, users: _Users, root: int) -> int | None:
        if value.id == root:
            return None
        total = 0
        for user, number in users.get(value.id, ()):
            if user.opcode == "tuple" or user.opcode in COLLECTIVES:
                continue  # handed on, or moved by the links
            if user.opcode in _VIEWS:
                part = self._of_value(user, users, root)
            else:
                part = self.taken(user, number, value.shape)
            if part is None:
                return None
            total += part
        return min(total, padded_bytes(value.shape))

    def _inside(self, fusion: Instruction) -> tuple[dict[int, Instruction], _Users, int]:
        called = fusion.called[0]
        if called not in self._users:
            computation = self._module.computations[called]
            users: _Users = {}
            parameters: dict[int, Instruction] = {}
            for instruction in computation.instructions:
                if instruction.parameter_number is not None:
                    parameters[instruction.parameter_number] = instruction
                for number, operand in enumerate(instruction.operands):
                    users.setdefault(operand, []).append((instruction, number))
            self._users[called] = parameters, users, computation.root
        return self._users[called]


def _arrays_inside(module: Module, fusion: Instruction) -> Iterator[Shape]:
    """Constants inside of a fusion that are more than a scalar: they lie in memory."""
    for inner in module.computations[fusion.called[0]].instructions:
        if inner.opcode == "constant":
            yield inner.shape
        elif inner.opcode == "fusion":
            yield from _arrays_inside(module, inner)


def _in_spaces(shape: Shape, taken: int | None) -> dict[int, int]:
    """Bytes of a value by memory space; `taken` of them where only a part is read.

    A part of a tuple is counted where its first array is.
    """
    arrays = [s for _, s in leaves(shape) if isinstance(s, ArrayShape) and s.dims]
    if taken is None:
        return added_spaces({s.layout.memory_space: s.padded_bytes} for s in arrays)
    return {arrays[0].layout.memory_space: taken} if arrays else {}
