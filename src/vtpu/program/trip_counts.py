"""How often a loop runs, and so every computation of a program.

The compiler keeps no trip count with its loops. It is read from where the loop's variable begins, what
its condition compares it with, and what its body adds to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vtpu.program.modules import Instruction, Module
from vtpu.program.value_origins import Index, Origins, Scalar

_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def trip_count(module: Module, loop: Instruction) -> int | None:
    """How often the body of a `while` runs; None when it cannot be told before it runs."""
    return _count(module, Origins(module), loop)


def runs(module: Module) -> Mapping[int, float | None]:
    """How often one execution of the module comes to each computation; None where it cannot be told.

    Computations are those with steps of their own: the entry, bodies and conditions of loops, branches,
    functions that are called. Every branch of a conditional is taken to run whenever the conditional
    does: which one it is, is for the caller to choose. What an asynchronous operation wraps is left out:
    its start stands for it.
    """
    origins = Origins(module)
    found: dict[int, float | None] = {}
    # in program order a caller comes behind what it calls, so backwards it comes first
    order = [c for c in _callers_first(module, module.entry) if c in module.computations]
    found.update(dict.fromkeys(order, 0.0))
    found[module.entry] = 1.0
    for number in order:
        for instruction in module.computations[number].instructions:
            for called, times in _calls(module, origins, instruction):
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


def _calls(
    module: Module, origins: Origins, instruction: Instruction
) -> list[tuple[int, float | None]]:
    if instruction.opcode == "while" and len(instruction.called) == 2:
        body, condition = instruction.called
        times = _count(module, origins, instruction)
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


def _count(module: Module, origins: Origins, loop: Instruction) -> int | None:
    if (known := _known(loop.attributes)) is not None:
        return known
    if len(loop.called) != 2 or any(c not in module.computations for c in loop.called):
        return None
    compared = origins.compared(loop)
    if compared is None:
        return None
    left, direction, right = compared
    variable = _variable(origins, loop, left)
    if variable is None:
        left, direction, right = right, _FLIPPED[direction], left
        variable = _variable(origins, loop, left)
    if variable is None:
        return None
    index, step = variable
    begin, end = origins.before(loop, index), _outside(origins, loop, right)
    if begin is None or end is None or begin.source != end.source:
        return None
    return _steps(begin.offset + left.offset, end.offset, step, direction)


def _variable(origins: Origins, loop: Instruction, scalar: Scalar) -> tuple[Index, int] | None:
    """Where in the loop's tuple a scalar of the condition is, and its step; None if it has none."""
    parameter = origins.parameter(loop.called[1])
    if scalar.source is None or parameter is None or scalar.source[0] != parameter.id:
        return None
    index = scalar.source[1]
    step = origins.step(loop, index)
    return (index, step) if step else None


def _outside(origins: Origins, loop: Instruction, scalar: Scalar) -> Scalar | None:
    """A scalar of the condition as one before the loop; None when the loop changes it."""
    parameter = origins.parameter(loop.called[1])
    if scalar.source is None:
        return scalar
    number, index = scalar.source
    if parameter is None or number != parameter.id or origins.step(loop, index) != 0:
        return None
    before = origins.before(loop, index)
    return None if before is None else Scalar(before.source, before.offset + scalar.offset)


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
