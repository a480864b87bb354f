"""A program's memory: laws that hold of every program."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from program_strategies import ENTRY, programs
from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.live_ranges import Occupant, end_where_others_begin, find_occupants
from vtpu.analysis.program.memory import analyse_memory, group_by
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    LogicalBuffer,
    Placed,
    ProgramMemory,
)
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape

F32 = ArrayShape(ElementType.F32, (128,), Layout((0,), ((128,),)))


@given(programs())
def test_the_parts_and_what_is_free_are_the_compilers_total(memory):
    for space in analyse_memory(memory).spaces:
        own = [a.size for a in memory.assignment.allocations if a.color == space.color]
        assert space.total_bytes == sum(own)
        for position in range(len(space.live)):
            alive = sum(item.bytes for item in space.alive_at(position))
            assert alive == space.live[position] <= space.total_bytes
        assert space.peak_bytes == space.live.max()
        assert space.peak_bytes + space.free_at_peak_bytes == space.total_bytes


@given(programs())
def test_groups_are_a_partition_of_the_peak(memory):
    for space in analyse_memory(memory).spaces:
        for key in (lambda i: i.role, lambda i: i.layer, lambda i: i.place, lambda i: i.dtype):
            groups = group_by(space.at_peak(), key)
            assert sum(g.bytes for g in groups) == space.peak_bytes
            assert sum(g.count for g in groups) == len(space.at_peak())


@given(programs())
def test_a_life_lasts_from_the_definition_to_the_last_use(memory):
    instructions = memory.module.computations[ENTRY].instructions
    position = {i.id: n for n, i in enumerate(instructions)}
    lives = {o.buffers[0]: (o.start, o.end) for o in find_occupants(memory) if o.is_traced}
    for instruction in instructions:
        if instruction.opcode == "parameter":
            continue
        start, end = lives[instruction.id]
        users = [i.id for i in instructions if instruction.id in i.operands]
        assert start == position[instruction.id]
        assert end == max([start, *(position[u] for u in users)])


occupants = st.lists(
    st.builds(
        lambda buffer, offset, size, start, length: Occupant(
            buffers=(buffer,), allocation=0, kind=AllocationKind.TEMP, color=1, offset=offset,
            size=size, start=start, end=start + length, is_traced=False,
        ),
        st.integers(0, 99), st.integers(0, 50), st.integers(1, 20), st.integers(0, 20), st.integers(0, 9),
    ),
    max_size=12,
)  # fmt: skip


@given(occupants)
def test_no_two_occupants_of_a_heap_take_a_byte_at_the_same_time(found):
    taken = np.zeros((40, 80), int)
    kept = end_where_others_begin(found)
    for occupant in kept:
        taken[
            occupant.start : occupant.end + 1, occupant.offset : occupant.offset + occupant.size
        ] += 1
    assert taken.max(initial=0) <= 1
    assert sum(len(o.buffers) for o in kept) == len(found)


def test_a_fusion_whose_result_a_collective_makes_is_one():
    gather = Instruction(id=1, name="gather", opcode="all-gather", shape=F32)
    handed_on = Instruction(id=2, name="cast", opcode="bitcast", shape=F32, operands=(1,))
    fusion = Instruction(
        id=3, name="fusion", opcode="fusion", shape=F32, called=(8,), op_name="jit(f)/jvp(a)/dot"
    )
    module = Module(
        name="m",
        entry=ENTRY,
        computations={
            8: Computation(id=8, name="fused", instructions=(gather, handed_on), root=2),
            ENTRY: Computation(id=ENTRY, name="main", instructions=(fusion,), root=3),
        },
    )
    heap = Allocation(
        index=0, size=512, color=0, kind=AllocationKind.TEMP, placed=(Placed(3, 0, 512),)
    )
    assignment = BufferAssignment(
        buffers={3: LogicalBuffer(id=3, size=512, color=0, instruction=3)}, allocations=(heap,)
    )
    (item,) = analyse_memory(ProgramMemory(module=module, assignment=assignment)).hbm.items
    assert item.role is Role.COLLECTIVE
