"""Small modules as XLA writes them, made field by field: a chain of additions with its assignment."""

from __future__ import annotations

from vtpu.reading.wire import write_field, write_varint

F32 = 11
BUFFER_BYTES = 4 << 20
_ENTRY = 1


def packed(*numbers: int) -> bytes:
    """A packed repeated field."""
    return b"".join(map(write_varint, numbers))


def hlo_proto(count: int) -> bytes:
    """An `HloProto` of `count` instructions: an argument of 4 MiB, then additions in a heap of at most 16 MiB."""
    return write_field(1, hlo_module(count)) + write_field(3, _assignment(count))


def hlo_module(count: int) -> bytes:
    """Its `HloModuleProto`."""
    instructions = b"".join(write_field(2, _instruction(n)) for n in range(count))
    ids = write_field(5, _ENTRY) + write_field(6, count)
    computation = write_field(1, "main") + instructions + ids
    sequence = write_field(1, _ENTRY) + write_field(2, write_field(1, packed(*range(1, count + 1))))
    parts = (
        write_field(1, "jit_step"), write_field(2, "main"), write_field(3, computation),
        write_field(6, _ENTRY), write_field(7, write_field(1, sequence)),
    )  # fmt: skip
    return b"".join(parts)


def _shape() -> bytes:
    layout = write_field(1, packed(1, 0)) + write_field(6, write_field(1, packed(8, 128)))
    return write_field(2, F32) + write_field(3, packed(1024, 1024)) + write_field(5, layout)


def _instruction(number: int) -> bytes:
    opcode = "add" if number else "parameter"
    path = f"jit(step)/jvp(block_{number})/add" if number else "x"
    operands = packed(max(number, 1), max(number - 1, 1)) if number else b""
    parts = (
        write_field(1, f"{opcode}.{number}"), write_field(2, opcode), write_field(3, _shape()),
        write_field(7, write_field(2, path)), write_field(35, number + 1), write_field(36, operands),
    )  # fmt: skip
    return b"".join(parts)


def _assignment(count: int) -> bytes:
    buffers = b"".join(
        write_field(
            1,
            write_field(1, n)
            + write_field(2, BUFFER_BYTES)
            + write_field(3, write_field(4, n + 1)),
        )
        for n in range(count)
    )
    argument = write_field(2, BUFFER_BYTES) + write_field(5, 1) + write_field(9, _placed(0, 0))
    inside = b"".join(write_field(9, _placed(n, n % 4 * BUFFER_BYTES)) for n in range(1, count))
    heap = write_field(1, 1) + write_field(2, min(count - 1, 4) * BUFFER_BYTES) + inside
    return buffers + write_field(3, argument) + write_field(3, heap) + write_field(4, _trace(count))


def _placed(number: int, offset: int) -> bytes:
    return write_field(1, number) + write_field(2, offset) + write_field(3, BUFFER_BYTES)


def _trace(count: int) -> bytes:
    events: list[bytes] = []
    for number in range(1, count):
        events.append(_event(0, number))
        if number > 3:
            events.append(_event(1, number - 3))
    return b"".join(write_field(1, e) for e in events) + write_field(3, 1)


def _event(kind: int, number: int) -> bytes:
    where = write_field(3, "main") + write_field(4, f"add.{number}")
    return write_field(1, kind) + write_field(2, number) + where
