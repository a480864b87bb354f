"""The protobuf wire format, read and written field by field, without message classes.

Enough for the few fields that vtpu needs of messages that jaxlib does not expose. A message is a
sequence of (field number, value): a value is an int (varint, fixed) or a `memoryview` of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Value = int | memoryview
Fields = dict[int, list[Value]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """The varint at `at` and the index behind it."""
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:  # ten bytes hold 64 bits; foreign bytes would make a number without end
                raise WireError("a number is too long")
    except IndexError:
        raise WireError("a number is cut") from None


def read_fields(data: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order.

    Raises:
        WireError: the bytes are not a message.
    """
    for number, value, _ in read_spans(data):
        yield number, value


def readable_fields(data: bytes | memoryview, problems: list[str]) -> Iterator[tuple[int, Value]]:
    """The fields of a message up to where it is damaged, which is added to `problems`."""
    try:
        yield from read_fields(data)
    except WireError as error:
        problems.append(f"the file is cut or damaged: {error}")


def read_spans(data: bytes | memoryview) -> Iterator[tuple[int, Value, memoryview]]:
    """The fields of a message with the bytes that each one takes, tag included."""
    view = memoryview(data)
    at, size = 0, len(view)
    while at < size:
        start = at
        tag, at = read_varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = read_varint(view, at)
            yield number, value, view[start:at]
            continue
        if kind == _BYTES:
            length, at = read_varint(view, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"wire type {kind}")
        if at + length > size:
            raise WireError("a field is cut")
        field = view[at : at + length]
        at += length
        yield number, field if kind == _BYTES else int.from_bytes(field, "little"), view[start:at]


def group(data: bytes | memoryview) -> Fields:
    """All fields of a message by number, each with its values in order.

    Raises:
        WireError: the bytes are not a message.
    """
    fields: Fields = {}
    for number, value, _ in read_spans(data):
        fields.setdefault(number, []).append(value)
    return fields


def as_bytes(value: Value) -> memoryview:
    """A bytes value; empty for a number."""
    return value if isinstance(value, memoryview) else memoryview(b"")


def last_bytes(fields: Fields, number: int) -> memoryview:
    """The last value of field `number` as bytes, as protobuf has it; empty when absent."""
    values = fields.get(number)
    return as_bytes(values[-1]) if values else memoryview(b"")


def last_int(fields: Fields, number: int) -> int:
    """The last value of field `number` as a signed number; 0 when absent."""
    values = fields.get(number)
    value = values[-1] if values else 0
    return signed(value) if isinstance(value, int) else 0


def last_text(fields: Fields, number: int) -> str:
    """The last value of field `number` as text; empty when absent."""
    return bytes(last_bytes(fields, number)).decode(errors="replace")


def all_ints(fields: Fields, number: int) -> tuple[int, ...]:
    """The repeated numbers of field `number`, packed or not."""
    values = fields.get(number)
    return tuple(unpack_ints(values)) if values else ()


def find_all(data: bytes | memoryview, number: int) -> list[Value]:
    """Every value of field `number`."""
    return [value for n, value in read_fields(data) if n == number]


def find(data: bytes | memoryview, number: int) -> Value | None:
    """The last value of field `number`, as protobuf has it; None when absent."""
    values = find_all(data, number)
    return values[-1] if values else None


def find_int(data: bytes | memoryview, number: int) -> int:
    """Field `number` as an unsigned number; 0 when absent."""
    value = find(data, number)
    return value if isinstance(value, int) else 0


def find_bytes(data: bytes | memoryview, number: int) -> memoryview:
    """Field `number` as bytes; empty when absent."""
    value = find(data, number)
    return value if isinstance(value, memoryview) else memoryview(b"")


def find_text(data: bytes | memoryview, number: int) -> str:
    """Field `number` as text; empty when absent."""
    return bytes(find_bytes(data, number)).decode(errors="replace")


def signed(value: int) -> int:
    """A varint of type int32 or int64 as a signed number."""
    return value - (1 << 64) if value >> 63 else value


def find_ints(data: bytes | memoryview, number: int) -> list[int]:
    """The repeated numbers of field `number`, packed or not."""
    return unpack_ints(find_all(data, number))


def unpack_ints(values: Iterable[Value]) -> list[int]:
    """The numbers of a repeated field's values, packed or not."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, int):
            numbers.append(signed(value))
            continue
        at = 0
        while at < len(value):
            item, at = read_varint(value, at)
            numbers.append(signed(item))
    return numbers


def replace(data: bytes | memoryview, number: int, new: Callable[[memoryview], bytes]) -> bytes:
    """The message with every bytes field `number` replaced by what `new` makes of it.

    All other fields stay as they are, byte for byte.
    """
    out = bytearray()
    for field, value, span in read_spans(data):
        if field == number and isinstance(value, memoryview):
            out += write_field(number, new(value))
        else:
            out += span
    return bytes(out)


def write_varint(value: int) -> bytes:
    """A number as a varint; negative ones in two's complement of 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_field(number: int, value: int | bytes | memoryview | str) -> bytes:
    """A field with its tag."""
    if isinstance(value, int):
        return write_varint(number << 3 | _VARINT) + write_varint(value)
    data = value.encode() if isinstance(value, str) else bytes(value)
    return write_varint(number << 3 | _BYTES) + write_varint(len(data)) + data
