"""Where scalars of a program come from, and other values that nothing changes on the way.

Values come through tuples, copies, bitcasts, fusions and calls, and loops hand in what they do not
change. A scalar is followed as `source + offset`, where the source is a value that cannot be followed
further; a number has none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape

#: Operations that leave an array as it is, element for element, and further ones for a scalar.
_SAME_ARRAY = {"copy", "opt-barrier", "reshape"}
_SAME = {"bitcast", "bitcast-convert", "broadcast", "convert", "transpose"}
_NEGATED = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "NE": "EQ", "EQ": "NE"}
_COMPUTED: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": lambda a: -a,
    "maximum": max,
    "minimum": min,
}
_LONGEST = 500  # a chain through which a value comes unchanged; longer ones are in damaged modules
_DEEPEST = 12  # sums of sums: each level may double what there is to look at

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    """`source + offset`. Without a source a number; a source is an instruction and an index of it."""

    source: tuple[int, Index] | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Value:
    """An instruction, where it stands: `given` are the values of its computation's parameters."""

    instruction: Instruction
    given: tuple[_Value, ...] | None = None


class Origins:
    """Follows the values of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._loops: dict[int, Instruction] | None = None

    def before(self, loop: Instruction, index: Index) -> Scalar | None:
        """The scalar at an index of what a loop is given first."""
        return self._scalar(_Value(self._module.by_id[loop.operands[0]]), index, 0)

    def step(self, loop: Instruction, index: Index) -> int | None:
        """What a loop's body adds to the scalar at an index; None when it is not a constant.

        An element of any type that the body leaves as it is has 0.
        """
        parameter = self.parameter(loop.called[0])
        after = self._scalar(_Value(self._root(loop.called[0])), index, 0, is_open=True)
        if parameter is None or after is None or after.source != (parameter.id, index):
            return None
        return after.offset

    def compared(self, loop: Instruction) -> tuple[Scalar, str, Scalar] | None:
        """What a loop's condition compares, as of its parameter, and the direction; None for others."""
        return self._comparison(_Value(self._root(loop.called[1])))

    def parameter(self, computation: int) -> Instruction | None:
        """The first parameter of a computation."""
        found = self._module.computations.get(computation)
        if found is None:
            return None
        return next((i for i in found.instructions if i.parameter_number is not None), None)

    def constant(self, array: Instruction) -> Instruction | None:
        """The constant that an array is, if it is one and nothing changes it on the way."""
        found = self._scalar(_Value(array), (), 0)
        if found is None or found.source is None:
            return None
        origin = self._module.by_id[found.source[0]]
        return origin if origin.opcode == "constant" and not found.offset else None

    # ---- values --------------------------------------------------------------------------------

    def _comparison(
        self, value: _Value, *, is_negated: bool = False
    ) -> tuple[Scalar, str, Scalar] | None:
        """What a condition compares, through the fusions and calls that it is wrapped in."""
        for _ in range(_LONGEST):
            instruction = value.instruction
            if instruction.opcode == "compare" and instruction.direction in _NEGATED:
                sides = [self._scalar(v, (), 0, is_open=True) for v in self._operands(value)]
                if len(sides) != 2 or sides[0] is None or sides[1] is None:
                    return None
                direction = instruction.direction
                return sides[0], _NEGATED[direction] if is_negated else direction, sides[1]
            inner = self._inner(value)
            if inner is not None:
                value = inner
            elif instruction.opcode in _SAME | _SAME_ARRAY or instruction.opcode == "not":
                is_negated ^= instruction.opcode == "not"
                value = self._operands(value)[0]
            else:
                return None
        return None

    def _scalar(
        self, value: _Value, index: Index, depth: int, *, is_open: bool = False
    ) -> Scalar | None:
        """A value's element at an index. `is_open`: a loop's own parameter is a source."""
        for _ in range(_LONGEST):
            further = self._further(value, index)
            if further is None:
                return self._ending(value, index, depth, is_open=is_open)
            value, index = further
        return None

    def _further(self, value: _Value, index: Index) -> tuple[_Value, Index] | None:
        """Where an element of a value comes from unchanged; None where it is made."""
        instruction = value.instruction
        inner = self._inner(value)
        if inner is not None:
            return inner, index
        if instruction.opcode == "parameter":
            number = instruction.parameter_number or 0
            return (value.given[number], index) if value.given is not None else None
        operands = self._operands(value)
        match instruction.opcode:
            case "get-tuple-element":
                found = operands[0], (instruction.tuple_index or 0, *index)
            case "tuple" if index:
                found = operands[index[0]], index[1:]
            case "copy-start":  # of (copy, original, context)
                found = operands[0], index[1:]
            case "copy-done":
                found = operands[0], (0, *index)
            case opcode:
                is_same = opcode in _SAME_ARRAY or (opcode in _SAME and _is_scalar(instruction))
                found = (operands[0], index) if is_same else None
        return found

    def _ending(self, value: _Value, index: Index, depth: int, *, is_open: bool) -> Scalar | None:
        instruction = value.instruction
        match instruction.opcode:
            case "constant":
                if instruction.value is None:  # an array
                    return Scalar((instruction.id, ()), 0)
                return Scalar(None, instruction.value)
            case opcode if opcode in _COMPUTED:
                return self._computed(value, depth, is_open=is_open)
            case "while":
                return self._after_loop(value, index, depth, is_open=is_open)
            case "parameter" if not is_open:
                return self._handed_in(instruction, index, depth)
            case _:
                return Scalar((instruction.id, index), 0)

    def _computed(self, value: _Value, depth: int, *, is_open: bool) -> Scalar | None:
        if depth > _DEEPEST:
            return None
        sides = [self._scalar(v, (), depth + 1, is_open=is_open) for v in self._operands(value)]
        known = [s for s in sides if s is not None]
        if len(known) != len(sides):
            return None
        return _combined(value.instruction, known)

    def _after_loop(
        self, value: _Value, index: Index, depth: int, *, is_open: bool
    ) -> Scalar | None:
        """An element of what a loop leaves: as it was before, where no run changes it."""
        loop = value.instruction
        is_followed = depth <= _DEEPEST and len(loop.called) == 2 and value.given is None
        if not is_followed or self.step(loop, index) != 0:
            return Scalar((loop.id, index), 0)
        return self._scalar(self._operands(value)[0], index, depth + 1, is_open=is_open)

    def _handed_in(self, parameter: Instruction, index: Index, depth: int) -> Scalar | None:
        """A parameter of a loop's body or condition that no run changes is what the loop was given."""
        loop = self._loop_of(parameter)
        if loop is None or depth > _DEEPEST or self.step(loop, index) != 0:
            return Scalar((parameter.id, index), 0)
        return self._scalar(_Value(self._module.by_id[loop.operands[0]]), index, depth + 1)

    def _loop_of(self, parameter: Instruction) -> Instruction | None:
        if self._loops is None:
            self._loops = {}
            for loop in self._module.by_id.values():
                if loop.opcode == "while":
                    for called in loop.called:
                        if (found := self.parameter(called)) is not None:
                            self._loops[found.id] = loop
        return self._loops.get(parameter.id)

    # ---- the module ----------------------------------------------------------------------------

    def _operands(self, value: _Value) -> list[_Value]:
        return [_Value(self._module.by_id[o], value.given) for o in value.instruction.operands]

    def _inner(self, value: _Value) -> _Value | None:
        """What a fusion or a call computes, as a value inside of it."""
        instruction = value.instruction
        if instruction.opcode not in ("fusion", "call") or len(instruction.called) != 1:
            return None
        return _Value(self._root(instruction.called[0]), tuple(self._operands(value)))

    def _root(self, computation: int) -> Instruction:
        return self._module.by_id[self._module.computations[computation].root]


def _is_scalar(instruction: Instruction) -> bool:
    return isinstance(instruction.shape, ArrayShape) and not instruction.shape.dims


def _combined(instruction: Instruction, sides: list[Scalar]) -> Scalar:
    """An operation on scalars; what is not `source + offset` is a source of its own."""
    offsets = [s.offset for s in sides]
    if all(s.source is None for s in sides):
        return Scalar(None, _COMPUTED[instruction.opcode](*offsets))
    left, right = sides[0], sides[-1]
    if instruction.opcode == "add" and (left.source is None or right.source is None):
        return Scalar(left.source or right.source, sum(offsets))
    if instruction.opcode == "subtract" and right.source is None:
        return Scalar(left.source, left.offset - right.offset)
    if instruction.opcode == "subtract" and left.source == right.source:
        return Scalar(None, left.offset - right.offset)
    return Scalar((instruction.id, ()), 0)
