"""The values of constants, from `LiteralProto` in an instruction's fields.

Field numbers are those of openxla/xla `xla/xla_data.proto`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from vtpu.reading import wire

_LITERAL = 8  # of HloInstructionProto
_SHAPE = 1
_SIGNED = {4, 5}  # S32, S64
_INTEGERS = {4: 4, 5: 5, 8: 6, 9: 7}  # PrimitiveType: field of LiteralProto
_BYTES = {2: 15, 3: 17, 6: 3, 7: 16}  # S8, S16, U8, U16: fields with the bytes themselves
_DTYPES = {4: "<i4", 5: "<i8", 8: "<u4", 9: "<u8", 2: "i1", 3: "<i2", 6: "u1", 7: "<u2"}
_LARGEST = 1 << 20  # elements; what says which blocks a kernel skips is smaller


def integer_value(fields: wire.Fields) -> int | None:
    """The value of a constant that is one integer."""
    if _LITERAL not in fields:
        return None
    literal = wire.group(wire.last_bytes(fields, _LITERAL))
    shape = wire.group(wire.last_bytes(literal, _SHAPE))
    kind = wire.last_int(shape, 2)
    if kind not in _INTEGERS or any(wire.all_ints(shape, 3)):
        return None
    values = wire.all_ints(literal, _INTEGERS[kind])
    if len(values) != 1:
        return None
    return values[0] if kind in _SIGNED else values[0] % (1 << 64)


def small_array(fields: wire.Fields) -> bytes:
    """The elements of a constant that is a small array of integers, row by row; empty for others."""
    if _LITERAL not in fields:
        return b""
    literal = wire.group(wire.last_bytes(fields, _LITERAL))
    shape = wire.group(wire.last_bytes(literal, _SHAPE))
    kind, dims = wire.last_int(shape, 2), wire.all_ints(shape, 3)
    if kind not in _DTYPES or not dims or not 0 < prod(dims) <= _LARGEST:
        return b""
    if kind in _BYTES:
        elements = np.frombuffer(wire.last_bytes(literal, _BYTES[kind]), _DTYPES[kind])
    else:
        numbers = wire.all_ints(literal, _INTEGERS[kind])
        elements = np.array(numbers, np.int64).astype(_DTYPES[kind])
    if elements.size != prod(dims):
        return b""
    order = wire.all_ints(wire.group(wire.last_bytes(shape, 5)), 1) or tuple(range(len(dims)))[::-1]
    return _row_by_row(elements, dims, order).tobytes()


def _row_by_row(
    elements: np.ndarray, dims: tuple[int, ...], minor_to_major: tuple[int, ...]
) -> np.ndarray:
    """The elements of an array, which stand in the order of its layout, in that of its dimensions."""
    major_to_minor = minor_to_major[::-1]
    stored = elements.reshape([dims[d] for d in major_to_minor])
    return stored.transpose(np.argsort(major_to_minor))
