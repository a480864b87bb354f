"""A printed buffer assignment as the values that the proto would give, where the module is there too.

The text names instructions; the proto numbers them. Heap traces are not printed, so how long a
temporary lives follows from its uses alone.
"""

from __future__ import annotations

from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    LogicalBuffer,
    Placed,
)
from vtpu.program.modules import Module
from vtpu.reading.text_dumps import buffer_assignment as printed


def assignment_of(text: printed.BufferAssignmentText, module: Module) -> BufferAssignment:
    """The assignment; values whose instruction the module does not have are of no instruction."""
    numbers = {i.name: i.id for i in module.by_id.values()}
    values = [v for a in text.allocations for v in a.values if v.size is not None]
    buffers = (
        LogicalBuffer(
            id=v.id,
            size=v.size or 0,
            color=v.color,
            instruction=numbers.get(v.name, numbers.get(v.name.rpartition("/")[2], -1)),
            index=_index(v.index),
        )
        for v in values
    )
    return BufferAssignment(
        buffers={b.id: b for b in buffers},
        allocations=tuple(_allocation(a) for a in text.allocations),
    )


def kind_of(allocation: printed.Allocation) -> AllocationKind:
    """What an allocation is for."""
    if allocation.is_thread_local:
        return AllocationKind.LOCAL
    if allocation.parameter is not None:
        return AllocationKind.ARGUMENT
    if allocation.is_constant:
        return AllocationKind.CONSTANT
    return AllocationKind.OUTPUT if allocation.maybe_live_out else AllocationKind.TEMP


def _allocation(found: printed.Allocation) -> Allocation:
    placed = (
        Placed(v.id, v.offset, v.size)
        for v in found.values
        if v.offset is not None and v.size is not None
    )
    return Allocation(
        index=found.number,
        size=found.size,
        color=found.color,
        kind=kind_of(found),
        parameter=found.parameter,
        parameter_index=found.parameter_index,
        is_live_out=found.maybe_live_out,
        is_tuple=(found.output_shape or "").startswith("("),
        placed=tuple(placed),
    )


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.strip("{}").split(",") if n)
