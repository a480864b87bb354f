"""Many protobuf messages of one kind at once, as columns of numpy: read and written in bulk.

A profile has millions of events of a few fields each; `wire` would take microseconds for every field.
Here one step handles one field of all messages.

Written, a column of fields is `Rows`: per message a few bytes, held as a matrix with the number of
bytes that count in each line. Rows are put one behind the other and nested without a loop over
messages. Read, the result is `FieldColumns`: all fields of all messages, flat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Unsigned: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_AT_ONCE = 1 << 15  # messages whose bytes are put together at once: they fit the cache


# ---- writing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The bytes of n messages, or of a part of each: parts side by side.

    A part is a matrix of n rows and how many bytes of each row count.
    """

    count: int
    parts: tuple[tuple[Bytes, Ints], ...] = ()

    @property
    def sizes(self) -> Ints:
        """Bytes per message."""
        total = np.zeros(self.count, np.int64)
        for _, sizes in self.parts:
            total += sizes
        return total

    def then(self, *others: Rows) -> Rows:
        """Each message's bytes, followed by those of the others."""
        return Rows(self.count, self.parts + tuple(p for other in others for p in other.parts))

    def where(self, present: NDArray[np.bool_]) -> Rows:
        """The same bytes, none where `present` is false."""
        return Rows(self.count, tuple((m, np.where(present, s, 0)) for m, s in self.parts))

    def take(self, which: Ints) -> Rows:
        """The bytes of some messages, each as often as it is named."""
        return Rows(len(which), tuple((m[which], s[which]) for m, s in self.parts))

    def spread(self, rows: Ints, count: int) -> Rows:
        """The bytes of these messages as those of `count`, of which the others have none."""
        at = np.zeros(count, np.int64)
        present = np.zeros(count, np.bool_)
        at[rows], present[rows] = np.arange(len(rows)), True
        return self.take(at).where(present) if len(rows) else Rows(count)

    def join(self) -> bytes:
        """All messages, one after the other."""
        return b"".join(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        widths = [np.arange(matrix.shape[1]) for matrix, _ in self.parts]
        for start in range(0, self.count, _AT_ONCE):
            rows = slice(start, min(start + _AT_ONCE, self.count))
            masks = [w < s[rows, None] for w, (_, s) in zip(widths, self.parts, strict=True)]
            if masks:
                yield np.hstack([m[rows] for m, _ in self.parts])[np.hstack(masks)].tobytes()


def constant(data: bytes, count: int) -> Rows:
    """The same bytes in every message."""
    matrix = np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))
    return Rows(count, ((matrix, np.full(count, len(data), np.int64)),))


def varints(values: NDArray[np.integer]) -> Rows:
    """One varint per message; negative ones in two's complement of 64 bits."""
    numbers = _unsigned(values)
    sizes = np.ones(len(numbers), np.int64)
    for power in range(1, _LONGEST_VARINT):
        longer = numbers >= np.uint64(1 << 7 * power)
        if not longer.any():
            break
        sizes += longer
    width = int(sizes.max(initial=1))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    matrix = (numbers[:, None] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    matrix |= np.where(np.arange(width) < sizes[:, None] - 1, np.uint8(0x80), np.uint8(0))
    return Rows(len(numbers), ((matrix, sizes),))


def doubles(values: NDArray[np.float64]) -> Rows:
    """One fixed64 per message."""
    matrix = np.ascontiguousarray(values, "<f8").view(np.uint8).reshape(len(values), 8)
    return Rows(len(values), ((matrix, np.full(len(values), 8, np.int64)),))


def texts(values: Sequence[bytes]) -> Rows:
    """Bytes of their own in every message. Their lengths are not written."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    width = int(sizes.max(initial=0))
    flat = b"".join(v.ljust(width, b"\0") for v in values)
    return Rows(len(values), ((np.frombuffer(flat, np.uint8).reshape(len(values), width), sizes),))


def varint_field(number: int, values: NDArray[np.integer]) -> Rows:
    """A field with a varint in every message."""
    return tag(number, VARINT, len(values)).then(varints(values))


def fixed_field(number: int, values: NDArray[np.integer]) -> Rows:
    """A field with a fixed64 in every message."""
    numbers = doubles(_unsigned(values).view(np.float64))
    return tag(number, FIXED64, len(values)).then(numbers)


def message_field(number: int, content: Rows) -> Rows:
    """A field with a message (or text) in every message."""
    return tag(number, BYTES, content.count).then(varints(content.sizes), content)


def tag(number: int, kind: int, count: int) -> Rows:
    """The tag of a field."""
    return constant(_varint(number << 3 | kind), count)


def _varint(value: int) -> bytes:
    return varints(np.array([value])).join()


def _unsigned(values: NDArray[np.integer]) -> Unsigned:
    if values.dtype == np.uint64:
        return values.astype(np.uint64, copy=False)
    return np.ascontiguousarray(values, np.int64).view(np.uint64)


# ---- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FieldColumns:
    """All fields of many messages. Those of one message stand in their order.

    `rows` says whose field it is, `numbers` and `kinds` are of the tag, `values` the number itself, or
    where the bytes start; these end at `ends`. `damaged` are rows whose bytes end within a field or are
    no message: their fields up to there are in.
    """

    rows: Ints
    numbers: Ints
    kinds: Ints
    values: Unsigned
    ends: Ints
    damaged: Ints

    def select(self, which: NDArray[np.bool_]) -> FieldColumns:
        """Some of the fields."""
        return FieldColumns(
            self.rows[which],
            self.numbers[which],
            self.kinds[which],
            self.values[which],
            self.ends[which],
            self.damaged,
        )

    def field(self, number: int, kind: int = VARINT) -> FieldColumns:
        """The fields of one number and kind."""
        return self.select((self.numbers == number) & (self.kinds == kind))


def read_messages(data: Bytes, starts: Ints, ends: Ints) -> FieldColumns:
    """The fields of the messages at `starts` to `ends` in `data`. Never raises."""
    cursors = _Cursors(data, starts, ends)
    steps: list[FieldColumns] = []
    while cursors.has_more():
        steps.append(cursors.step())
    no_value = np.empty(0, np.uint64)
    return FieldColumns(
        rows=_joined(s.rows for s in steps),
        numbers=_joined(s.numbers for s in steps),
        kinds=_joined(s.kinds for s in steps),
        values=np.concatenate([no_value, *(s.values for s in steps)]),
        ends=_joined(s.ends for s in steps),
        damaged=np.sort(_joined(s.damaged for s in steps)),
    )


def _joined(columns: Iterable[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *columns])


class _Cursors:
    """A place in each of many messages, all moved on by one field at a time."""

    def __init__(self, data: Bytes, starts: Ints, ends: Ints) -> None:
        self._data = np.concatenate([data, np.zeros(_LONGEST_VARINT + 8, np.uint8)])
        self._rows = np.flatnonzero(starts < ends)
        self._at, self._ends = starts[self._rows], ends[self._rows]

    def has_more(self) -> bool:
        return len(self._rows) > 0

    def step(self) -> FieldColumns:
        """The next field of every message that has one."""
        tags, at, good = self._varint(self._at)
        numbers, kinds = (
            (tags >> np.uint64(3)).astype(np.int64),
            (tags & np.uint64(7)).astype(np.int64),
        )
        values, behind, whole = self._varint(at)
        behind = np.where(kinds == BYTES, _sum(behind, values), behind)
        starts = at.copy()
        starts[kinds == BYTES] = (behind - values.astype(np.int64))[kinds == BYTES]
        for kind, size in ((FIXED64, 8), (FIXED32, 4)):
            behind = np.where(kinds == kind, at + size, behind)
            whole |= kinds == kind
        good &= whole & np.isin(kinds, (VARINT, FIXED64, BYTES, FIXED32)) & (numbers > 0)
        good &= behind <= self._ends
        values = np.where(kinds == BYTES, starts.view(np.uint64), values)
        values = np.where(kinds == FIXED64, self._fixed(at, 8), values)
        values = np.where(kinds == FIXED32, self._fixed(at, 4), values)
        found = FieldColumns(
            rows=self._rows[good],
            numbers=numbers[good],
            kinds=kinds[good],
            values=values[good],
            ends=behind[good],
            damaged=self._rows[~good],
        )
        go_on = good & (behind < self._ends)
        self._rows, self._at, self._ends = self._rows[go_on], behind[go_on], self._ends[go_on]
        return found

    def _varint(self, at: Ints) -> tuple[Unsigned, Ints, NDArray[np.bool_]]:
        """The varints at some places, the places behind them, and whether they are whole."""
        value = np.zeros(len(at), np.uint64)
        behind = at.copy()
        is_open = np.ones(len(at), np.bool_)
        last = len(self._data) - 1
        for power in range(_LONGEST_VARINT):
            byte = self._data[np.minimum(behind, last)].astype(np.uint64)
            part = (byte & np.uint64(0x7F)) << np.uint64(7 * power)
            value |= np.where(is_open, part, np.uint64(0))
            behind += is_open
            is_open &= byte >= 0x80
            if not is_open.any():
                break
        return value, behind, ~is_open & (behind <= self._ends)

    def _fixed(self, at: Ints, size: int) -> Unsigned:
        """The little-endian numbers of `size` bytes at some places."""
        value = np.zeros(len(at), np.uint64)
        last = len(self._data) - 1
        for i in range(size):
            byte = self._data[np.minimum(at + i, last)].astype(np.uint64)
            value |= byte << np.uint64(8 * i)
        return value


def _sum(at: Ints, sizes: Unsigned) -> Ints:
    """Places behind what is `sizes` long; far away where that is more than any file has."""
    far = np.int64(1 << 62)
    return np.where(sizes < far, at + sizes.astype(np.int64), far)
