"""Which arguments of a program it updates."""

from __future__ import annotations

from typing import Any

import pytest

from vtpu.analysis.program.updates import updated_parameters
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import parse_shape

WHOLE, HALF = "f32[256,128]{1,0:T(8,128)}", "f32[128,128]{1,0:T(8,128)}"


def instruction(
    number: int, opcode: str, *operands: int, shape: str = WHOLE, **more: Any
) -> Instruction:
    return Instruction(
        id=number,
        name=f"{opcode}.{number}",
        opcode=opcode,
        shape=parse_shape(shape),
        operands=operands,
        **more,
    )


def module(*entry: Instruction) -> Module:
    main = Computation(id=0, name="main", instructions=entry, root=entry[-1].id)
    return Module(name="m", entry=0, computations={0: main})


WEIGHTS = instruction(1, "parameter", op_name="weights", parameter_number=0)
GRADIENT = instruction(2, "parameter", op_name="gradient", parameter_number=1)


def added(number: int) -> Instruction:
    return instruction(90, "add", number, 2, op_name="jit(step)/add")


def test_what_is_added_to_an_argument_updates_it() -> None:
    assert 0 in updated_parameters(module(WEIGHTS, GRADIENT, added(1)))


@pytest.mark.parametrize("other", [1, 2], ids=["one array", "two arrays"])
def test_an_array_that_is_brought_to_vmem_in_slices_is_the_same(other: int) -> None:
    slices = [
        instruction(10, "async-start", 1, shape=HALF),
        instruction(11, "async-done", 10, shape=HALF),
        instruction(12, "async-start", other, shape=HALF),
        instruction(13, "async-done", 12, shape=HALF),
        instruction(14, "custom-call", 11, 13, custom_call_target="ConcatBitcast"),
    ]
    found = updated_parameters(
        module(WEIGHTS, GRADIENT, *slices, instruction(90, "add", 14, 14, op_name="jit(step)/add"))
    )
    assert (0 in found) == (other == 1)
