"""What the compiler placed where: the buffer assignment that libtpu dumps beside a module.

Field numbers are those of `HloProto` and `BufferAssignmentProto` in openxla/xla
`xla/service/hlo.proto`.
"""

from __future__ import annotations

from vtpu.reading import wire

_ASSIGNMENT = 3  # of HloProto
_ALLOCATIONS = 3  # of BufferAssignmentProto
_SIZE, _IS_THREAD_LOCAL, _IS_PARAMETER, _IS_LIVE_OUT, _MEMORY_SPACE, _IS_CONSTANT = (
    2,
    3,
    5,
    7,
    8,
    12,
)


def hbm_temporaries(hlo_proto: bytes) -> int | None:
    """Bytes of HBM that the program reserves for temporaries, or None if nothing was assigned.

    That is what is neither parameter, result, constant nor local to one computation.

    Raises:
        WireError: the bytes are not an `HloProto`.
    """
    assignment = wire.find_bytes(hlo_proto, _ASSIGNMENT)
    if not assignment:
        return None
    total = 0
    for allocation in wire.find_all(assignment, _ALLOCATIONS):
        if isinstance(allocation, memoryview):
            total += _temporary_bytes(allocation)
    return total


def _temporary_bytes(allocation: memoryview) -> int:
    fields = dict(wire.read_fields(allocation))
    others = (_IS_THREAD_LOCAL, _IS_PARAMETER, _IS_LIVE_OUT, _IS_CONSTANT, _MEMORY_SPACE)
    size = fields.get(_SIZE, 0)
    return size if isinstance(size, int) and not any(fields.get(f) for f in others) else 0
