"""A profile as a trace of Perfetto: opens in ui.perfetto.dev and `trace_processor`, without a converter.

Written in Perfetto's own form, which is smaller than Chrome's JSON and opens faster: names and texts
stand once (interned), a slice is a packet where it begins and one where it ends. Planes become
processes and lines tracks. Slices of a track nest, so what overlaps otherwise goes to tracks of its own.
Times are whole nanoseconds. Field numbers are those of google/perfetto
`protos/perfetto/trace/perfetto_trace.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtpu.reading import message_columns as columns
from vtpu.reading import wire
from vtpu.reading.message_columns import Ints, Rows
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, Space, StatValue

_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CATEGORIES, _ANNOTATION, _TYPE, _NAME, _TRACK, _FLOW = 3, 4, 9, 10, 11, 47  # of TrackEvent
_INTERNED_CATEGORIES, _INTERNED_NAMES, _INTERNED_KEYS, _INTERNED_TEXTS = 1, 2, 3, 29
_KEY, _UINT, _INT, _DOUBLE, _TEXT = 1, 3, 4, 5, 17  # of DebugAnnotation
_CLEARED, _NEEDS_INTERNED = 1, 2
_BEGIN, _END = 1, 2
_SEQUENCE_ID = 1
_CATEGORY_STAT = "hlo_category"
_FLOW_STATS = ("_p", "_c")  # a launch on the host, and what it launched
_HIDDEN = {  # numbers for XProf alone, and what is written elsewhere too
    "_pt", "_ct", "_r", "_a", *_FLOW_STATS, "program_id", "symbol_id", "model_flops",
    "shape_with_layout", "source_stack",
}  # fmt: skip


def perfetto_trace(space: Space) -> bytes:
    """The profile as a serialized trace of Perfetto."""
    writer = _Writer()
    body = [part for plane in space.planes for part in writer.plane(plane)]
    return b"".join([writer.interned(), *body])


@dataclass(slots=True)
class _Interned:
    """Numbers for texts of one use, from 1."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def encode(self, use: int) -> bytes:
        return b"".join(
            wire.write_field(use, wire.write_field(1, number) + wire.write_field(2, text))
            for text, number in self.numbers.items()
        )


class _Writer:
    """Writes planes; texts are interned once for all."""

    def __init__(self) -> None:
        self._names, self._categories = _Interned(), _Interned()
        self._keys, self._texts = _Interned(), _Interned()
        self._tracks = 0

    def interned(self) -> bytes:
        """The packet that all others need."""
        texts = (
            self._categories.encode(_INTERNED_CATEGORIES)
            + self._names.encode(_INTERNED_NAMES)
            + self._keys.encode(_INTERNED_KEYS)
            + self._texts.encode(_INTERNED_TEXTS)
        )
        flags = wire.write_field(_FLAGS, _CLEARED)
        return _packet(flags + wire.write_field(_INTERNED, texts))

    def plane(self, plane: Plane) -> Iterator[bytes]:
        """A process with a track for each line."""
        lines = [line for line in plane.lines if len(line.events)]
        if not lines:
            return
        process = self._new_track()
        name = wire.write_field(1, plane.id & 0x7FFFFFFF) + wire.write_field(6, plane.name)
        yield _descriptor(process, wire.write_field(3, name))
        kinds = {number: self._kind(kind) for number, kind in plane.metadata.items()}
        for line in lines:
            yield from self._line(line, process, kinds)

    def _new_track(self) -> int:
        self._tracks += 1
        return self._tracks

    def _line(self, line: Line, process: int, kinds: Mapping[int, bytes]) -> Iterator[bytes]:
        slices = _slices(line)
        lanes = _lanes(slices)
        for lane in range(int(lanes.max(initial=0)) + 1):
            track = self._new_track()
            name = line.name if lane == 0 else f"{line.name} ({lane + 1})"
            yield _descriptor(track, wire.write_field(2, name) + wire.write_field(5, process))
            rows = np.flatnonzero(lanes == lane)
            yield self._slices(slices.take(rows), line.events, track, kinds)

    # ---- slices ----

    def _slices(
        self, slices: _Slices, events: Events, track: int, kinds: Mapping[int, bytes]
    ) -> bytes:
        """The packets of a track's slices, in the order of time."""
        count = len(slices.start)
        rows, is_begin = _sequence(slices)
        time = np.where(is_begin, slices.start[rows], slices.end[rows])
        event = columns.varint_field(_TYPE, np.where(is_begin, _BEGIN, _END)).then(
            columns.constant(wire.write_field(_TRACK, track), 2 * count),
            self._described(slices, events, kinds).take(rows).where(is_begin),
        )
        fixed = wire.write_field(_SEQUENCE, _SEQUENCE_ID) + wire.write_field(
            _FLAGS, _NEEDS_INTERNED
        )
        packet = columns.varint_field(_TIMESTAMP, time).then(
            columns.constant(fixed, 2 * count), columns.message_field(_TRACK_EVENT, event)
        )
        return columns.message_field(_PACKET, packet).join()

    def _described(self, slices: _Slices, events: Events, kinds: Mapping[int, bytes]) -> Rows:
        """What each slice is: its kind's name and annotations, then its own."""
        numbers, which = np.unique(events.metadata[slices.rows], return_inverse=True)
        known = [kinds.get(n) or self._unnamed(n) for n in numbers.tolist()]
        described = columns.texts(known).take(which.ravel())
        return described.then(*self._own(slices.rows, events))

    def _own(self, rows: Ints, events: Events) -> Iterator[Rows]:
        """The stats of single events."""
        where = np.full(len(events), -1)
        where[rows] = np.arange(len(rows))
        for column in events.stats:
            mine = where[column.rows] >= 0
            at, values = where[column.rows][mine], column.values[mine]
            if column.name in _FLOW_STATS and values.dtype.kind in "iu":
                yield columns.fixed_field(_FLOW, values).spread(at, len(rows))
            elif column.name not in _HIDDEN and len(values):
                made = self._annotations(column.name, values)
                yield made.spread(at, len(rows)) if made else Rows(len(rows))

    def _annotations(self, name: str, values: NDArray[Any]) -> Rows | None:
        """An annotation for each value; None for what no annotation can hold."""
        key = columns.constant(wire.write_field(_KEY, self._keys.number(name)), len(values))
        if values.dtype.kind == "f":
            value = columns.tag(_DOUBLE, columns.FIXED64, len(values)).then(columns.doubles(values))
        elif values.dtype.kind in "iu":
            value = columns.varint_field(_INT if values.dtype.kind == "i" else _UINT, values)
        elif isinstance(values[0], str):
            numbers = [self._texts.number(str(v)) for v in values.tolist()]
            value = columns.varint_field(_TEXT, np.array(numbers))
        else:
            return None
        return columns.message_field(_ANNOTATION, key.then(value))

    def _kind(self, kind: EventMetadata) -> bytes:
        """The fields of a TrackEvent that all slices of a kind share."""
        parts = [wire.write_field(_NAME, self._names.number(kind.short_name or "(no name)"))]
        category = kind.stats.get(_CATEGORY_STAT)
        if isinstance(category, str):
            parts.append(wire.write_field(_CATEGORIES, self._categories.number(category)))
        stats: dict[str, StatValue] = {**kind.stats}
        if kind.display_name:
            stats["hlo"] = kind.name
        for name, value in stats.items():
            if name not in _HIDDEN and not isinstance(value, bytes):
                made = self._annotations(name, np.array([value], _dtype(value)))
                parts.append(made.join() if made else b"")
        return b"".join(parts)

    def _unnamed(self, number: int) -> bytes:
        return wire.write_field(_NAME, self._names.number(f"(kind {number})"))


def _dtype(value: StatValue) -> np.dtype[Any]:
    if isinstance(value, float):
        return np.dtype(np.float64)
    if isinstance(value, int):
        return np.dtype(np.int64 if value < 1 << 63 else np.uint64)
    return np.dtype(object)


def _packet(content: bytes) -> bytes:
    return wire.write_field(_PACKET, wire.write_field(_SEQUENCE, _SEQUENCE_ID) + content)


def _descriptor(track: int, what: bytes) -> bytes:
    return _packet(wire.write_field(_DESCRIPTOR, wire.write_field(1, track) + what))


# ---- the order of slices -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Slices:
    """Slices, an outer one before those in it: their event's row, begin and end in nanoseconds."""

    rows: Ints
    start: Ints
    end: Ints

    def take(self, which: Ints) -> _Slices:
        return _Slices(self.rows[which], self.start[which], self.end[which])


def _slices(line: Line) -> _Slices:
    """A line's events; each takes a nanosecond at least, for Perfetto has no shorter ones."""
    events = line.events
    start = line.began_ns + events.offset_ps // 1000
    end = np.maximum(line.began_ns + events.end_ps // 1000, start + 1)
    order = np.lexsort((-end, start))
    return _Slices(order, start[order], end[order])


def _lanes(slices: _Slices) -> Ints:
    """The track of each slice: the first one where it nests in what runs, or where nothing does."""
    running: list[list[int]] = []
    spans = zip(slices.start.tolist(), slices.end.tolist(), strict=True)
    return np.fromiter((_lane(running, *span) for span in spans), np.int64, len(slices.start))


def _lane(running: list[list[int]], start: int, end: int) -> int:
    """The track for a slice; `running` are the ends of what runs on each, an outer one first."""
    for lane, ends in enumerate(running):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or end <= ends[-1]:
            ends.append(end)
            return lane
    running.append([end])
    return len(running) - 1


def _sequence(slices: _Slices) -> tuple[Ints, NDArray[np.bool_]]:
    """Begins and ends in the order in which they happen: of which slice, and whether it is a begin.

    What ends goes before what begins at the same time, an inner slice ends before an outer one.
    """
    count = len(slices.start)
    numbers = np.arange(count)
    by_end = np.lexsort((-numbers, slices.end))
    ends = slices.end[by_end]
    rows = np.empty(2 * count, np.int64)
    is_begin = np.zeros(2 * count, np.bool_)
    begins_at = numbers + np.searchsorted(ends, slices.start, side="right")
    ends_at = numbers + np.searchsorted(slices.start, ends, side="left")
    rows[begins_at], rows[ends_at], is_begin[begins_at] = numbers, by_end, True
    return rows, is_begin
