"""A profile's bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from vtpu.reading import message_columns as columns
from vtpu.reading import wire
from vtpu.reading.message_columns import Rows
from vtpu.reading.xplane.space import (
    EventMetadata,
    Events,
    Line,
    Plane,
    Space,
    StatColumn,
    StatValue,
)

# XStat: the field of a value by its type
_DOUBLE, _UINT, _INT, _TEXT, _BYTES, _REFERENCE = 2, 3, 4, 5, 6, 7


def encode_space(space: Space) -> bytes:
    """The profile as a serialized XSpace."""
    texts = ((2, space.errors), (3, space.warnings), (4, space.hostnames))
    known = _Known()
    return b"".join(
        [wire.write_field(1, _encode_plane(plane, known)) for plane in space.planes]
        + [wire.write_field(number, text) for number, found in texts for text in found]
    )


class _Known:
    """What planes share: numbers for names, from 1 (0 is none), and kinds of events that are encoded.

    Devices that run the same program have the same kinds.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.kinds: dict[tuple[int, int], tuple[bytes, frozenset[str]]] = {}


class _Names:
    """The names of stats that a plane refers to, and texts that many of its events have."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self.used: set[str] = set()

    def number(self, name: str) -> int:
        self.used.add(name)
        return self._known.numbers.setdefault(name, len(self._known.numbers) + 1)

    def encode(self) -> bytes:
        numbers = sorted((self._known.numbers[name], name) for name in self.used)
        return b"".join(
            wire.write_field(
                5, _entry(number, wire.write_field(1, number) + wire.write_field(2, name))
            )
            for number, name in numbers
        )


def _encode_plane(plane: Plane, known: _Known) -> bytes:
    names = _Names(known)
    parts = [wire.write_field(1, plane.id), wire.write_field(2, plane.name)]
    parts += [wire.write_field(3, _encode_line(line, names)) for line in plane.lines]
    parts += [_encode_kind(number, kind, names, known) for number, kind in plane.metadata.items()]
    own = _encode_stats(6, plane.stats.items(), names)
    return b"".join([*parts, names.encode(), own])


def _encode_kind(number: int, kind: EventMetadata, names: _Names, known: _Known) -> bytes:
    """A kind of events; the same one in another plane is encoded already."""
    key = (number, id(kind))
    if key not in known.kinds:
        own = _Names(known)
        data = wire.write_field(4, _entry(number, _encode_metadata(number, kind, own)))
        known.kinds[key] = data, frozenset(own.used)
    data, used = known.kinds[key]
    names.used |= used
    return data


def _entry(key: int, value: bytes) -> bytes:
    """An entry of a map."""
    return wire.write_field(1, key) + wire.write_field(2, value)


def _encode_metadata(number: int, metadata: EventMetadata, names: _Names) -> bytes:
    parts = [wire.write_field(1, number), wire.write_field(2, metadata.name)]
    if metadata.display_name:
        parts.append(wire.write_field(4, metadata.display_name))
    parts.append(_encode_stats(5, metadata.stats.items(), names))
    parts += [wire.write_field(6, child) for child in metadata.children]
    return b"".join(parts)


def _encode_stats(field: int, stats: Iterable[tuple[str, StatValue]], names: _Names) -> bytes:
    return b"".join(
        wire.write_field(field, wire.write_field(1, names.number(name)) + _encode_value(value))
        for name, value in stats
    )


def _encode_value(value: StatValue) -> bytes:
    if isinstance(value, float):
        return wire.write_varint(_DOUBLE << 3 | columns.FIXED64) + struct.pack("<d", value)
    if isinstance(value, int):
        return wire.write_field(_INT if value < 1 << 63 else _UINT, value)
    return wire.write_field(_TEXT if isinstance(value, str) else _BYTES, value)


# ---- events ------------------------------------------------------------------------------------


def _encode_line(line: Line, names: _Names) -> bytes:
    head = wire.write_field(1, line.id) + wire.write_field(2, line.name)
    return head + wire.write_field(3, line.began_ns) + _encode_events(line.events, names)


def _encode_events(events: Events, names: _Names) -> bytes:
    event = columns.varint_field(1, events.metadata).then(
        columns.varint_field(2, events.offset_ps), columns.varint_field(3, events.duration_ps)
    )
    stats = [_encode_column(column, len(events), names) for column in events.stats]
    return columns.message_field(4, event.then(*stats)).join()


def _encode_column(column: StatColumn, count: int, names: _Names) -> Rows:
    """A stat as a field of each event that has it."""
    name = np.full(len(column.rows), names.number(column.name), np.int64)
    stat = columns.message_field(4, columns.varint_field(1, name).then(_values(column, names)))
    return stat if stat.count == count else stat.spread(column.rows, count)


def _values(column: StatColumn, names: _Names) -> Rows:
    values = column.values
    if values.dtype == np.float64:
        return columns.tag(_DOUBLE, columns.FIXED64, len(values)).then(columns.doubles(values))
    if values.dtype == np.uint64:
        return columns.varint_field(_UINT, values)
    if values.dtype == np.int64:
        return columns.varint_field(_INT, values)
    if len(values) and isinstance(values[0], bytes):
        return columns.message_field(_BYTES, columns.texts(values.tolist()))
    numbers = np.fromiter(map(names.number, values), np.int64, len(values))
    return columns.varint_field(_REFERENCE, numbers)
