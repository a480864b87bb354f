"""Where an instruction comes from that the compiler gave no source: of what it moves or computes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.analysis.program.sources import Source, source_of
from vtpu.program.locations import Frame
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import parse_shape

WORD = parse_shape("f32[128]{0:T(128)}")
BLOCK, SCAN, STEP = (Frame("train.py", name, n) for name, n in (("f", 3), ("loss", 8), ("s", 20)))
MADE = "jit(f)/jvp(layer_1)/mul"


def instruction(number: int, opcode: str, *operands: int, **more: Any) -> Instruction:
    return Instruction(
        id=number, name=f"{opcode}.{number}", opcode=opcode, shape=WORD, operands=operands, **more
    )


def module(*entry: Instruction, **bodies: tuple[Instruction, ...]) -> Module:
    computations = {0: Computation(id=0, name="main", instructions=entry, root=entry[-1].id)}
    for name, body in bodies.items():
        number = int(name.removeprefix("body"))
        computations[number] = Computation(
            id=number, name=name, instructions=body, root=body[-1].id
        )
    stacks = ((), (BLOCK,), (Frame("", "", 0),), (SCAN, STEP), (BLOCK, SCAN, STEP), (SCAN,))
    return Module(name="m", entry=0, computations=computations, stacks=stacks)


def path(found: Module, number: int) -> str:
    return source_of(found, found.by_id[number]).op_name


def test_a_prefetch_comes_from_where_its_value_does() -> None:
    found = module(
        instruction(1, "multiply", op_name=MADE, stack=1),
        instruction(2, "tuple", 9, 1),
        instruction(3, "get-tuple-element", 2, tuple_index=1),
        instruction(4, "copy-start", 3),
        instruction(5, "copy-done", 4),
        instruction(9, "iota"),
    )
    for number in (5, 4, 3, 1):
        assert source_of(found, found.by_id[number]) == Source(MADE, found.stacks[1])


def test_a_fusion_comes_from_the_operation_nearest_to_its_result() -> None:
    inner = (instruction(30, "parameter"), instruction(31, "exponential", 30, op_name=MADE))
    body = (
        instruction(20, "parameter"),
        instruction(21, "sine", 20, op_name="jit(f)/sin"),
        instruction(22, "fusion", 21, called=(3,)),
        instruction(23, "bitcast", 22),
    )
    found = module(instruction(1, "fusion", called=(2,)), body2=body, body3=inner)
    assert path(found, 1) == MADE


def test_a_path_without_a_place_keeps_its_phase_and_takes_the_place_of_what_it_moves() -> None:
    moved = "jit(f)/transpose(jvp(layer_1))/reshape"
    found = module(
        instruction(1, "multiply", op_name=MADE, stack=1),
        instruction(2, "copy", 1, op_name=moved),
    )
    assert source_of(found, found.by_id[2]) == Source(moved, found.stacks[1])


def test_what_inlining_left_of_a_path_is_no_source() -> None:
    body = (
        instruction(20, "sine", op_name="jit(f)/sin", stack=1),
        instruction(21, "add", 20, op_name="reduce_window_sum", stack=2),
    )
    found = module(instruction(1, "fusion", called=(2,)), body2=body)
    assert source_of(found, found.by_id[1]) == Source("jit(f)/sin", found.stacks[1])


def test_the_copy_of_an_argument_has_no_source() -> None:
    found = module(
        instruction(1, "parameter", op_name="params['w']/x", parameter_number=0),
        instruction(2, "copy", 1),
    )
    assert source_of(found, found.by_id[2]) == Source("", ())


@pytest.mark.parametrize("stack", [1, 4, 5], ids=["none", "all", "one"])
def test_what_stands_in_a_loop_has_the_frames_of_the_loop_too(stack: int) -> None:
    body = (instruction(20, "sine", op_name=MADE, stack=stack),)
    fused = (instruction(30, "fusion", called=(2,)),)
    found = module(instruction(1, "while", called=(3,), stack=3), body2=body, body3=fused)
    expected = (SCAN, STEP) if stack == 5 else (BLOCK, SCAN, STEP)
    assert source_of(found, found.by_id[30]).frames == expected


def test_memory_set_aside_for_a_loop_comes_from_what_the_loop_writes_there() -> None:
    body = (
        instruction(20, "parameter"),
        instruction(21, "sine", op_name=MADE, stack=1),
        instruction(22, "tuple", 20, 21),
    )
    found = module(
        instruction(1, "iota"),
        instruction(
            2, "custom-call", custom_call_target="AllocateBuffer", op_name="jit(f)/loss", stack=3
        ),
        instruction(3, "tuple", 1, 2),
        instruction(4, "while", 3, called=(2,), stack=3),
        body2=body,
    )
    assert source_of(found, found.by_id[2]) == Source(MADE, (BLOCK, SCAN, STEP))


opcodes = st.sampled_from(
    ["copy", "tuple", "get-tuple-element", "fusion", "copy-start", "parameter", "add", "while"]
)


@given(
    st.lists(
        st.tuples(opcodes, st.lists(st.integers(0, 12), max_size=3), st.sampled_from(["", MADE])),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_any_module_has_a_source_even_one_with_circles(rows: Any) -> None:
    entry = [
        instruction(n, opcode, *operands, called=(0,), tuple_index=0, op_name=path)
        for n, (opcode, operands, path) in enumerate(rows)
    ]
    found = module(*entry)
    for each in entry:
        assert path(found, each.id) in ("", MADE)
