"""A profile from its bytes: of a TPU, a GPU or a CPU; whole, cut, packed by gzip, or foreign.

Nothing here raises on what others wrote. Of a cut file comes what stands before the cut, down to
single events.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtpu.reading import message_columns as columns
from vtpu.reading import wire
from vtpu.reading.message_columns import FieldColumns
from vtpu.reading.xplane.space import (
    EventMetadata,
    Events,
    Line,
    Plane,
    Space,
    StatColumn,
    StatValue,
)

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 4 << 30  # unpacked; a larger one is no profile that anything opens
_FIXED_SIZES = {columns.FIXED64: 8, columns.FIXED32: 4}
# XStat: the field of a value by its type
_DOUBLE, _UINT, _INT, _TEXT, _BYTES, _REFERENCE = 2, 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class ReadProfile:
    """A profile, and what of its file could not be read."""

    space: Space
    problems: tuple[str, ...] = ()


def read_space(data: bytes) -> ReadProfile:
    """The profile in `data`, the contents of an `*.xplane.pb`, perhaps packed by gzip."""
    problems: list[str] = []
    whole = unpacked(data, problems)
    planes: list[Plane] = []
    texts: dict[int, list[str]] = {2: [], 3: [], 4: []}
    for number, value, is_cut in _fields(memoryview(whole), problems):
        if number == 1:
            planes.append(_read_plane(value, problems))
        elif number in texts and not is_cut:
            texts[number].append(_text(value))
    space = Space(
        planes=tuple(planes),
        errors=tuple(texts[2]),
        warnings=tuple(texts[3]),
        hostnames=tuple(texts[4]),
    )
    return ReadProfile(space, tuple(dict.fromkeys(problems)))


def unpacked(data: bytes, problems: list[str]) -> bytes:
    """`data`, unpacked where gzip packed it; of a cut or damaged file what comes before."""
    if not data.startswith(_GZIP):
        return data
    packer = zlib.decompressobj(wbits=31)
    try:
        whole = packer.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        problems.append(f"the packed file is damaged: {error}")
        return _unpacked_prefix(data)
    if packer.unconsumed_tail:
        problems.append(f"it unpacks to more than {_MOST_BYTES >> 30} GiB: the rest was not read")
    elif not packer.eof:
        problems.append("the packed file is cut")
    return whole


def _unpacked_prefix(data: bytes) -> bytes:
    """What gzip gives before a damaged place, block by block."""
    packer, out = zlib.decompressobj(wbits=31), bytearray()
    try:
        for start in range(0, len(data), 4096):
            out += packer.decompress(data[start : start + 4096], _MOST_BYTES - len(out))
    except zlib.error:
        return bytes(out)  # the damage is in `problems` already
    return bytes(out)


def _fields(data: memoryview, problems: list[str]) -> Iterator[tuple[int, wire.Value, bool]]:
    """The fields of a message, and whether each is cut; ends at what is no message."""
    at, size = 0, len(data)
    try:
        while at < size:
            tag, start = wire.read_varint(data, at)
            if tag & 7 != columns.BYTES:
                value, at = _number(data, start, tag & 7)
                yield tag >> 3, value, False
                continue
            length, start = wire.read_varint(data, start)
            at = start + length
            if at > size:
                problems.append("the file is cut")
            yield tag >> 3, data[start:at], at > size
    except wire.WireError as error:
        problems.append(f"the file is cut or damaged: {error}")


def _number(data: memoryview, at: int, kind: int) -> tuple[int, int]:
    """A number of a field's kind, and where it ends."""
    if kind == columns.VARINT:
        return wire.read_varint(data, at)
    if kind not in _FIXED_SIZES:
        raise wire.WireError(f"wire type {kind}")
    end = at + _FIXED_SIZES[kind]
    if end > len(data):
        raise wire.WireError("a number is cut")
    return int.from_bytes(data[at:end], "little"), end


# ---- planes ------------------------------------------------------------------------------------


def _read_plane(value: wire.Value, problems: list[str]) -> Plane:
    parts = _PlaneParts()
    for number, part, is_cut in _fields(wire.as_bytes(value), problems):
        if not (is_cut and number != 3):
            parts.add(number, part)
    names = _stat_names(parts.stat_names)
    return Plane(
        id=parts.id,
        name=parts.name,
        lines=tuple(_read_line(line, names, problems) for line in parts.lines),
        metadata=dict(_read_metadata(m, names) for m in parts.metadata),
        stats=_read_stats(parts.stats, names),
    )


class _PlaneParts:
    """The fields of a plane, before the names that they refer to are known."""

    def __init__(self) -> None:
        self.id = 0
        self.name = ""
        self.lines: list[memoryview] = []
        self.metadata: list[memoryview] = []
        self.stat_names: list[memoryview] = []
        self.stats: list[memoryview] = []

    def add(self, number: int, value: wire.Value) -> None:
        if isinstance(value, int):
            self.id = wire.signed(value) if number == 1 else self.id
        elif number == 2:
            self.name = _text(value)
        else:
            lists = {3: self.lines, 4: self.metadata, 5: self.stat_names, 6: self.stats}
            lists.get(number, []).append(value)


def _stat_names(entries: list[memoryview]) -> dict[int, str]:
    names: dict[int, str] = {}
    for entry in entries:
        fields = _group(entry)
        names[wire.last_int(fields, 1)] = wire.last_text(_group(wire.last_bytes(fields, 2)), 2)
    return names


def _read_metadata(entry: memoryview, names: Mapping[int, str]) -> tuple[int, EventMetadata]:
    fields = _group(entry)
    own = _group(wire.last_bytes(fields, 2))
    return wire.last_int(fields, 1), EventMetadata(
        name=wire.last_text(own, 2),
        display_name=wire.last_text(own, 4),
        stats=_read_stats([wire.as_bytes(s) for s in own.get(5, ())], names),
        children=_ints(own, 6),
    )


def _read_stats(stats: list[memoryview], names: Mapping[int, str]) -> dict[str, StatValue]:
    found: dict[str, StatValue] = {}
    for stat in stats:
        fields = _group(stat)
        value = _value(fields, names)
        if value is not None:
            found[_name(names, wire.last_int(fields, 1))] = value
    return found


def _value(fields: wire.Fields, names: Mapping[int, str]) -> StatValue | None:
    for number, values in fields.items():
        value = values[-1]
        if isinstance(value, int):
            if number == _DOUBLE:
                return struct.unpack("<d", value.to_bytes(8, "little"))[0]
            if number == _REFERENCE:
                return _name(names, value)
            if number in (_UINT, _INT):
                return wire.signed(value) if number == _INT else value
        elif number in (_TEXT, _BYTES):
            return _text(value) if number == _TEXT else bytes(value)
    return None


def _name(names: Mapping[int, str], number: int) -> str:
    return names.get(number, f"(name {number})")


def _group(data: memoryview) -> wire.Fields:
    """The fields of a small message, up to where it is damaged."""
    found: wire.Fields = {}
    for number, value, is_cut in _fields(data, []):
        if not is_cut:
            found.setdefault(number, []).append(value)
    return found


def _ints(fields: wire.Fields, number: int) -> tuple[int, ...]:
    try:
        return wire.all_ints(fields, number)
    except wire.WireError:
        return ()


def _text(value: wire.Value) -> str:
    return bytes(wire.as_bytes(value)).decode(errors="replace")


# ---- lines and events --------------------------------------------------------------------------


def _read_line(data: memoryview, names: Mapping[int, str], problems: list[str]) -> Line:
    numbers: dict[int, int] = {}
    texts: dict[int, str] = {}
    events: list[memoryview] = []
    for number, value, is_cut in _fields(data, problems):
        if isinstance(value, int):
            numbers[number] = wire.signed(value)
        elif number == 4 and not is_cut:
            events.append(value)
        elif not is_cut:
            texts[number] = _text(value)
    return Line(
        id=numbers.get(1, 0),
        name=texts.get(2, "") or texts.get(11, ""),
        began_ns=numbers.get(3, 0),
        events=_read_events(events, names, problems),
    )


def _read_events(events: list[memoryview], names: Mapping[int, str], problems: list[str]) -> Events:
    sizes = np.fromiter(map(len, events), np.int64, len(events))
    ends = np.cumsum(sizes)
    data = np.frombuffer(b"".join(events), np.uint8)
    fields = columns.read_messages(data, ends - sizes, ends)
    if len(fields.damaged):
        problems.append(f"{len(fields.damaged):,} events are damaged")
    if len(fields.field(5).rows):
        problems.append("some events are sums of several, and have no time of their own")
    return Events(
        metadata=_column(fields, 1, len(events)),
        offset_ps=_column(fields, 2, len(events)),
        duration_ps=_column(fields, 3, len(events)),
        stats=_read_columns(data, fields.field(4, columns.BYTES), names),
    )


def _column(fields: FieldColumns, number: int, count: int) -> NDArray[np.int64]:
    """A number of every event; 0 where it is not written, as protobuf has it."""
    column = np.zeros(count, np.int64)
    found = fields.field(number)
    column[found.rows] = found.values.view(np.int64)
    return column


def _read_columns(
    data: NDArray[np.uint8], stats: FieldColumns, names: Mapping[int, str]
) -> tuple[StatColumn, ...]:
    """The stats of events, each name's as a column; of two in one event the last counts."""
    starts = stats.values.view(np.int64)
    fields = columns.read_messages(data, starts, stats.ends)
    own = _column(fields, 1, len(starts))
    values = fields.select((fields.numbers >= _DOUBLE) & (fields.numbers <= _REFERENCE))
    groups = own[values.rows] * 8 + values.numbers
    found: list[StatColumn] = []
    for group in np.unique(groups).tolist():
        part = values.select(groups == group)
        kinds = {_DOUBLE: columns.FIXED64, _TEXT: columns.BYTES, _BYTES: columns.BYTES}
        part = part.select(part.kinds == kinds.get(group % 8, columns.VARINT))
        rows, last = _last_of_each(stats.rows[part.rows])
        found.append(
            StatColumn(_name(names, group // 8), rows, _typed(data, part, group % 8, names)[last])
        )
    return tuple(column for column in found if len(column.rows))


def _last_of_each(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows once each, ascending, and where the last of each stands."""
    backwards, first = np.unique(rows[::-1], return_index=True)
    return backwards, len(rows) - 1 - first


def _typed(
    data: NDArray[np.uint8], part: FieldColumns, field: int, names: Mapping[int, str]
) -> NDArray[np.generic]:
    """The values of one field of XStat."""
    if field == _DOUBLE:
        return part.values.view(np.float64)
    if field == _UINT:
        return part.values
    if field == _INT:
        return part.values.view(np.int64)
    values = np.empty(len(part.rows), object)
    if field == _REFERENCE:
        values[:] = [_name(names, number) for number in part.values.tolist()]
        return values
    spans = zip(part.values.view(np.int64).tolist(), part.ends.tolist(), strict=True)
    found = [data[start:end].tobytes() for start, end in spans]
    values[:] = [_text(memoryview(f)) for f in found] if field == _TEXT else found
    return values
