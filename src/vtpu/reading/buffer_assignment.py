"""What the compiler placed where: the buffer assignment that libtpu dumps beside a module.

Field numbers are those of `HloProto` and `BufferAssignmentProto` in openxla/xla
`xla/service/hlo.proto`.
"""

from __future__ import annotations

from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    HeapEvent,
    HeapEventKind,
    HeapTrace,
    LogicalBuffer,
    MemorySpace,
    Placed,
)
from vtpu.program.modules import Module
from vtpu.reading import wire

_ASSIGNMENT = 3  # of HloProto


def find_assignment(hlo_proto: bytes | memoryview) -> memoryview:
    """The `BufferAssignmentProto` in an `HloProto`; empty when there is none.

    Raises:
        WireError: the bytes are not an `HloProto`.
    """
    return wire.find_bytes(hlo_proto, _ASSIGNMENT)


def read_assignment(data: bytes | memoryview, module: Module | None = None) -> BufferAssignment:
    """The assignment in a `BufferAssignmentProto`.

    `module`: where old releases name the defining instructions, their ids are looked up in it.

    Raises:
        WireError: the bytes are not such a message.
    """
    fields = wire.group(data)
    names = {i.name: i.id for i in module.by_id.values()} if module else {}
    buffers = [_buffer(wire.as_bytes(b), names) for b in fields.get(1, ())]
    return BufferAssignment(
        buffers={b.id: b for b in buffers},
        allocations=tuple(_allocation(wire.as_bytes(a)) for a in fields.get(3, ())),
        traces=tuple(_trace(wire.as_bytes(t)) for t in fields.get(4, ())),
    )


def hbm_temporaries(assignment: BufferAssignment) -> int:
    """Bytes of HBM that the program reserves for temporaries: what is neither parameter, result,
    constant nor local to one computation.
    """
    return sum(
        a.size
        for a in assignment.allocations
        if a.kind is AllocationKind.TEMP and a.color == MemorySpace.HBM
    )


def _buffer(data: memoryview, names: dict[str, int]) -> LogicalBuffer:
    fields = wire.group(data)
    place = wire.group(wire.as_bytes(fields[3][-1])) if 3 in fields else {}
    instruction = wire.last_int(place, 4)
    if not instruction and 2 in place:
        instruction = names.get(bytes(wire.as_bytes(place[2][-1])).decode(errors="replace"), 0)
    return LogicalBuffer(
        id=wire.last_int(fields, 1),
        size=wire.last_int(fields, 2),
        color=wire.last_int(fields, 4),
        instruction=instruction,
        index=tuple(wire.unpack_ints(place.get(3, ()))),
    )


def _allocation(data: memoryview) -> Allocation:
    fields = wire.group(data)
    is_parameter = bool(wire.last_int(fields, 5))
    return Allocation(
        index=wire.last_int(fields, 1),
        size=wire.last_int(fields, 2),
        color=wire.last_int(fields, 8),
        kind=_kind(fields),
        parameter=wire.last_int(fields, 6) if is_parameter else None,
        parameter_index=tuple(wire.unpack_ints(fields.get(10, ()))) if is_parameter else (),
        is_live_out=bool(wire.last_int(fields, 7)),
        is_tuple=bool(wire.last_int(fields, 11)),
        placed=tuple(_placed(wire.as_bytes(p)) for p in fields.get(9, ())),
    )


def _kind(fields: wire.Fields) -> AllocationKind:
    is_local, is_parameter, is_live_out, is_constant = (
        wire.last_int(fields, n) for n in (3, 5, 7, 12)
    )
    if is_local:
        return AllocationKind.LOCAL
    if is_parameter:
        return AllocationKind.ARGUMENT
    if is_constant:
        return AllocationKind.CONSTANT
    return AllocationKind.OUTPUT if is_live_out else AllocationKind.TEMP


def _placed(data: memoryview) -> Placed:
    fields = wire.group(data)
    return Placed(wire.last_int(fields, 1), wire.last_int(fields, 2), wire.last_int(fields, 3))


def _trace(data: memoryview) -> HeapTrace:
    fields = wire.group(data)
    return HeapTrace(
        wire.last_int(fields, 3), tuple(_event(wire.as_bytes(e)) for e in fields.get(1, ()))
    )


def _event(data: memoryview) -> HeapEvent:
    fields = wire.group(data)
    kind = (
        HeapEventKind(wire.last_int(fields, 1))
        if wire.last_int(fields, 1) in (0, 1, 2)
        else HeapEventKind.SHARE
    )
    return HeapEvent(
        kind,
        wire.last_int(fields, 2),
        wire.last_text(fields, 3),
        wire.last_text(fields, 4),
        wire.last_int(fields, 5) if kind is HeapEventKind.SHARE else None,
    )
