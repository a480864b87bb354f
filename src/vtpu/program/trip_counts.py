"""How often a loop runs, and so every computation of a program.

The compiler keeps no trip count with its loops. It is read from where the loop's variable begins, what
its condition compares it with, and what its body adds to it. All three are scalars that come through
tuples, copies, bitcasts, fusions and calls, and that enclosing loops may hand in unchanged. A scalar is
followed as `source + offset`, where the source is a value that cannot be followed further.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vtpu.program.modules import Instruction, Module

_SAME = {
    "bitcast", "bitcast-convert", "broadcast", "convert", "copy", "opt-barrier", "reshape", "transpose",
}  # fmt: skip
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_NEGATED = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "NE": "EQ", "EQ": "NE"}
_COMPUTED: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": lambda a: -a,
    "maximum": max,
    "minimum": min,
}
_DEEPEST = 200  # of a chain of values; a module that nests deeper is damaged

_Index = tuple[int, ...]


def trip_count(module: Module, loop: Instruction) -> int | None:
    """How often the body of a `while` runs; None when it cannot be told before it runs."""
    return TripCounts(module).of(loop)


def runs(module: Module) -> Mapping[int, float | None]:
    """How often one execution of the module comes to each computation; None where it cannot be told.

    Computations are those with steps of their own: the entry, bodies and conditions of loops, branches,
    functions that are called. Every branch of a conditional is taken to run whenever the conditional
    does: which one it is, is for the caller to choose. What an asynchronous operation wraps is left out:
    its start stands for it.
    """
    counts = TripCounts(module)
    found: dict[int, float | None] = {}
    # in program order a caller comes behind what it calls, so backwards it comes first
    order = [c for c in _callers_first(module, module.entry) if c in module.computations]
    found.update(dict.fromkeys(order, 0.0))
    found[module.entry] = 1.0
    for number in order:
        for instruction in module.computations[number].instructions:
            for called, times in _calls(counts, instruction):
                if called in found:
                    found[called] = _plus(found[called], _times(found[number], times))
    return found


def _callers_first(module: Module, entry: int) -> list[int]:
    """The computations that have steps of their own, each behind all that call it."""
    done: list[int] = []
    seen: set[int] = set()
    stack: list[tuple[int, bool]] = [(entry, False)]
    while stack:
        number, is_left = stack.pop()
        if is_left:
            done.append(number)
            continue
        if number in seen or number not in module.computations:
            continue
        seen.add(number)
        stack.append((number, True))
        for instruction in module.computations[number].instructions:
            if instruction.opcode in ("while", "call", "conditional"):
                stack += [(called, False) for called in instruction.called]
    return done[::-1]


def _calls(counts: TripCounts, instruction: Instruction) -> list[tuple[int, float | None]]:
    if instruction.opcode == "while" and len(instruction.called) == 2:
        body, condition = instruction.called
        times = counts.of(instruction)
        return [(body, times), (condition, None if times is None else times + 1)]
    if instruction.opcode in ("call", "conditional"):
        return [(called, 1.0) for called in dict.fromkeys(instruction.called)]
    return []


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _times(a: float | None, b: float | None) -> float | None:
    if a == 0 or b == 0:
        return 0.0
    return None if a is None or b is None else a * b


@dataclass(frozen=True, slots=True)
class _Scalar:
    """`source + offset`. Without a source a number; a source is an instruction and an index of it."""

    source: tuple[int, _Index] | None
    offset: int


#: What the parameters of a computation are given, by number.
_Given = tuple["_Value", ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """An instruction, where it stands: `given` are the values of its computation's parameters."""

    instruction: Instruction
    given: _Given | None = None


class TripCounts:
    """The trip counts of a module's loops, each found once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[int, int | None] = {}
        self._loops: dict[int, Instruction] | None = None

    def of(self, loop: Instruction) -> int | None:
        """How often the body of a `while` runs; None when it cannot be told."""
        if loop.id not in self._found:
            self._found[loop.id] = None  # while it is looked for: a loop that depends on itself
            self._found[loop.id] = self._count(loop)
        return self._found[loop.id]

    def _count(self, loop: Instruction) -> int | None:
        if (known := _known(loop.attributes)) is not None:
            return known
        if len(loop.called) != 2 or any(c not in self._module.computations for c in loop.called):
            return None
        compared = self._condition(_Value(self._root(loop.called[1])))
        if compared is None:
            return None
        left, direction, right = compared
        variable = self._variable(loop, left)
        if variable is None:
            left, direction, right = right, _FLIPPED[direction], left
            variable = self._variable(loop, left)
        if variable is None:
            return None
        index, step = variable
        begin = self._scalar(_Value(self._module.by_id[loop.operands[0]]), index, 0)
        end = self._outside(loop, right)
        if begin is None or end is None or begin.source != end.source:
            return None
        return _steps(begin.offset + left.offset, end.offset, step, direction)

    def _variable(self, loop: Instruction, scalar: _Scalar) -> tuple[_Index, int] | None:
        """Where in the loop's tuple a scalar of the condition is, and its step; None if it has none."""
        parameter = self._parameter(loop.called[1])
        if scalar.source is None or parameter is None or scalar.source[0] != parameter.id:
            return None
        index = scalar.source[1]
        step = self._step(loop, index)
        return (index, step) if step else None

    def _step(self, loop: Instruction, index: _Index) -> int | None:
        """What the body adds to an element of the loop's tuple; None when it is not a constant."""
        parameter = self._parameter(loop.called[0])
        after = self._scalar(_Value(self._root(loop.called[0])), index, 0, is_open=True)
        if parameter is None or after is None or after.source != (parameter.id, index):
            return None
        return after.offset

    def _outside(self, loop: Instruction, scalar: _Scalar) -> _Scalar | None:
        """A scalar of the condition as one before the loop; None when the loop changes it."""
        parameter = self._parameter(loop.called[1])
        if scalar.source is None:
            return scalar
        number, index = scalar.source
        if parameter is None or number != parameter.id or self._step(loop, index) != 0:
            return None
        before = self._scalar(_Value(self._module.by_id[loop.operands[0]]), index, 0)
        return None if before is None else _Scalar(before.source, before.offset + scalar.offset)

    # ---- values --------------------------------------------------------------------------------

    def _condition(
        self, value: _Value, *, is_negated: bool = False
    ) -> tuple[_Scalar, str, _Scalar] | None:
        """What a condition compares, through the fusions and calls that it is wrapped in."""
        for _ in range(_DEEPEST):
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
            elif instruction.opcode in _SAME or instruction.opcode == "not":
                is_negated ^= instruction.opcode == "not"
                value = self._operands(value)[0]
            else:
                return None
        return None

    def _scalar(
        self, value: _Value, index: _Index, depth: int, *, is_open: bool = False
    ) -> _Scalar | None:
        """A value's element at an index. `is_open`: a loop's own parameter is a source."""
        for _ in range(_DEEPEST):
            further = self._further(value, index)
            if further is None:
                return self._ending(value, index, depth, is_open=is_open)
            value, index = further
        return None

    def _further(self, value: _Value, index: _Index) -> tuple[_Value, _Index] | None:
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
                found = (operands[0], index) if opcode in _SAME else None
        return found

    def _ending(self, value: _Value, index: _Index, depth: int, *, is_open: bool) -> _Scalar | None:
        instruction = value.instruction
        match instruction.opcode:
            case "constant":
                return None if instruction.value is None else _Scalar(None, instruction.value)
            case opcode if opcode in _COMPUTED:
                return self._computed(value, depth, is_open=is_open)
            case "while":
                return self._after_loop(value, index, depth)
            case "parameter" if not is_open:
                return self._handed_in(instruction, index, depth)
            case _:
                return _Scalar((instruction.id, index), 0)

    def _computed(self, value: _Value, depth: int, *, is_open: bool) -> _Scalar | None:
        if depth > _DEEPEST:
            return None
        sides = [self._scalar(v, (), depth + 1, is_open=is_open) for v in self._operands(value)]
        known = [s for s in sides if s is not None]
        if len(known) != len(sides):
            return None
        return _combined(value.instruction, known)

    def _after_loop(self, value: _Value, index: _Index, depth: int) -> _Scalar | None:
        """An element of what a loop leaves: as it was, or its variable after the last run."""
        loop = value.instruction
        opaque = _Scalar((loop.id, index), 0)
        if depth > _DEEPEST or len(loop.called) != 2 or value.given is not None:
            return opaque
        step = self._step(loop, index)
        times = 0 if step == 0 else self.of(loop)
        if step is None or times is None:
            return opaque
        before = self._scalar(self._operands(value)[0], index, depth + 1)
        return before and _Scalar(before.source, before.offset + step * times)

    def _handed_in(self, parameter: Instruction, index: _Index, depth: int) -> _Scalar | None:
        """A parameter of a loop's body or condition that no run changes is what the loop was given."""
        loop = self._loop_of(parameter)
        if loop is None or depth > _DEEPEST or self._step(loop, index) != 0:
            return _Scalar((parameter.id, index), 0)
        return self._scalar(_Value(self._module.by_id[loop.operands[0]]), index, depth + 1)

    def _loop_of(self, parameter: Instruction) -> Instruction | None:
        if self._loops is None:
            self._loops = {}
            for loop in self._module.by_id.values():
                if loop.opcode == "while":
                    for called in loop.called:
                        if (found := self._parameter(called)) is not None:
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

    def _parameter(self, computation: int) -> Instruction | None:
        found = self._module.computations.get(computation)
        if found is None:
            return None
        return next((i for i in found.instructions if i.parameter_number is not None), None)


def _combined(instruction: Instruction, sides: list[_Scalar]) -> _Scalar:
    """An operation on scalars; what is not `source + offset` is a source of its own."""
    offsets = [s.offset for s in sides]
    if all(s.source is None for s in sides):
        return _Scalar(None, _COMPUTED[instruction.opcode](*offsets))
    left, right = sides[0], sides[-1]
    if instruction.opcode == "add" and (left.source is None or right.source is None):
        return _Scalar(left.source or right.source, sum(offsets))
    if instruction.opcode == "subtract" and right.source is None:
        return _Scalar(left.source, left.offset - right.offset)
    if instruction.opcode == "subtract" and left.source == right.source:
        return _Scalar(None, left.offset - right.offset)
    return _Scalar((instruction.id, ()), 0)


def _steps(begin: int, end: int, step: int, direction: str) -> int | None:
    """How often `variable direction end` holds, from `begin` in steps; None when it never ends."""
    distance = end - begin
    if step < 0:
        direction = _FLIPPED[direction]
        distance, step = -distance, -step
    match direction:
        case "LT":
            return max(0, -(-distance // step))
        case "LE":
            return max(0, distance // step + 1)
        case "NE":
            return distance // step if distance >= 0 and distance % step == 0 else None
        case "EQ":
            return int(distance == 0)
        case _:  # it moves away from its end: not at all, or until the number overflows
            holds = distance < 0 or (direction == "GE" and distance == 0)
            return None if holds else 0


def _known(attributes: bytes) -> int | None:
    """The trip count that the back end keeps with a loop, where it does."""
    if b"known_trip_count" not in attributes:
        return None
    try:
        found: Any = json.loads(attributes)
        return int(found["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):  # cut or foreign: then the loop itself tells
        return None
