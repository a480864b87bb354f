"""A program's memory: laws that hold of every program."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vtpu.analysis.live_ranges import Occupant, end_where_others_begin, find_occupants
from vtpu.analysis.program_memory import analyse_memory, group_by
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    HeapEvent,
    HeapEventKind,
    HeapTrace,
    LogicalBuffer,
    Placed,
    ProgramMemory,
)
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape

ENTRY = 7
F32 = ArrayShape(ElementType.F32, (128,), Layout((0,), ((128,),)))


@st.composite
def programs(draw: st.DrawFn) -> ProgramMemory:
    """A chain of operations, each with a buffer that a later one uses last, in a heap without reuse."""
    count = draw(st.integers(1, 12))
    last_uses = [draw(st.integers(i, count - 1)) for i in range(count)]
    sizes = [draw(st.integers(1, 40)) * 512 for _ in range(count)]
    operands = [tuple(j for j in range(i) if last_uses[j] == i) for i in range(count)]
    instructions = tuple(
        Instruction(
            id=i,
            name=f"op.{i}",
            opcode="add",
            shape=F32,
            operands=operands[i],
            op_name=draw(
                st.sampled_from(["", "jit(f)/jvp(a)/add", "jit(f)/transpose(jvp(b))/mul"])
            ),
        )
        for i in range(count)
    )
    argument = Instruction(
        id=100, name="p", opcode="parameter", shape=F32, op_name="x", parameter_number=0
    )
    module = Module(
        name="m",
        entry=ENTRY,
        computations={
            ENTRY: Computation(
                id=ENTRY, name="main", instructions=(argument, *instructions), root=count - 1
            )
        },
    )
    return ProgramMemory(module=module, assignment=_assignment(sizes, last_uses))


def _assignment(sizes: list[int], last_uses: list[int]) -> BufferAssignment:
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    events: list[HeapEvent] = []
    for i in range(len(sizes)):
        events.append(HeapEvent(HeapEventKind.ALLOCATE, i, "main", f"op.{i}"))
        freed = [j for j, last in enumerate(last_uses) if last == i]
        events += [HeapEvent(HeapEventKind.FREE, j, "main", f"op.{j}") for j in freed]
    buffers = {i: LogicalBuffer(id=i, size=s, color=0, instruction=i) for i, s in enumerate(sizes)}
    buffers[100] = LogicalBuffer(id=100, size=512, color=0, instruction=100)
    placed = tuple(Placed(i, offsets[i], sizes[i]) for i in range(len(sizes)))
    heap = Allocation(index=1, size=sum(sizes), color=0, kind=AllocationKind.TEMP, placed=placed)
    argument = Allocation(
        index=0, size=512, color=0, kind=AllocationKind.ARGUMENT, parameter=0,
        placed=(Placed(100, 0, 512),),
    )  # fmt: skip
    return BufferAssignment(
        buffers=buffers, allocations=(argument, heap), traces=(HeapTrace(99, tuple(events)),)
    )


@given(programs())
def test_the_parts_and_what_is_free_are_the_compilers_total(memory):
    hbm = analyse_memory(memory).hbm
    assert hbm.total_bytes == sum(a.size for a in memory.assignment.allocations)
    for position in range(len(hbm.live)):
        alive = sum(item.bytes for item in hbm.alive_at(position))
        assert alive == hbm.live[position] <= hbm.total_bytes
    assert hbm.peak_bytes == hbm.live.max()
    assert hbm.peak_bytes + hbm.free_at_peak_bytes == hbm.total_bytes


@given(programs())
def test_groups_are_a_partition_of_the_peak(memory):
    hbm = analyse_memory(memory).hbm
    for key in (lambda i: i.role, lambda i: i.layer, lambda i: i.place, lambda i: i.dtype):
        groups = group_by(hbm.at_peak(), key)
        assert sum(g.bytes for g in groups) == hbm.peak_bytes
        assert sum(g.count for g in groups) == len(hbm.at_peak())


@given(programs())
def test_a_life_lasts_from_the_definition_to_the_last_use(memory):
    computation = memory.module.computations[ENTRY]
    position = {i.id: n for n, i in enumerate(computation.instructions)}
    lives = {o.buffers[0]: (o.start, o.end) for o in find_occupants(memory) if o.is_traced}
    for instruction in computation.instructions[1:]:
        start, end = lives[instruction.id]
        users = [i.id for i in computation.instructions if instruction.id in i.operands]
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
