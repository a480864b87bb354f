"""A profile as values: planes (devices, the host), lines in them, events in those.

Times are whole picoseconds from the begin of their line; lines begin at nanoseconds. The events of a
line are columns, since a profile has millions of them. What all events of a kind have in common, such
as an operation's name, category and FLOPs, stands once in its plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

StatValue = int | float | str | bytes
Stats = Mapping[str, StatValue]


@dataclass(frozen=True, slots=True, eq=False)
class StatColumn:
    """A stat of a line's events: the rows of those that have it, ascending, and its values there.

    `values` are int64, uint64 or float64, or objects that are all text or all bytes.
    """

    name: str
    rows: NDArray[np.int64]
    values: NDArray[Any]

    def __eq__(self, other: object) -> bool:
        """By name, rows and values."""
        if not isinstance(other, StatColumn):
            return NotImplemented
        return (
            self.name == other.name
            and np.array_equal(self.rows, other.rows)
            and self.values.dtype == other.values.dtype
            and np.array_equal(self.values, other.values, equal_nan=self.values.dtype.kind == "f")
        )

    def __hash__(self) -> int:
        """Columns are compared, not used as keys."""
        return id(self)


def _no_ints() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of a line. `metadata` is the number of each one's kind in its plane."""

    metadata: NDArray[np.int64] = field(default_factory=_no_ints)
    offset_ps: NDArray[np.int64] = field(default_factory=_no_ints)
    duration_ps: NDArray[np.int64] = field(default_factory=_no_ints)
    stats: tuple[StatColumn, ...] = ()

    def __len__(self) -> int:
        """How many events."""
        return len(self.metadata)

    def __eq__(self, other: object) -> bool:
        """By all columns; those of stats in any order."""
        if not isinstance(other, Events):
            return NotImplemented
        return (
            np.array_equal(self.metadata, other.metadata)
            and np.array_equal(self.offset_ps, other.offset_ps)
            and np.array_equal(self.duration_ps, other.duration_ps)
            and _sorted(self.stats) == _sorted(other.stats)
        )

    def __hash__(self) -> int:
        """Events are compared, not used as keys."""
        return id(self)

    @property
    def end_ps(self) -> NDArray[np.int64]:
        """Where each event ends."""
        return self.offset_ps + self.duration_ps

    def stat(self, name: str) -> dict[int, StatValue]:
        """The values of a stat by row."""
        found: dict[int, StatValue] = {}
        for column in self.stats:
            if column.name == name:
                found.update(zip(column.rows.tolist(), column.values.tolist(), strict=True))
        return found


def _sorted(stats: tuple[StatColumn, ...]) -> list[StatColumn]:
    return sorted(stats, key=lambda column: (column.name, column.values.dtype.str, _kind(column)))


def _kind(column: StatColumn) -> str:
    """What a column of objects holds: text or bytes."""
    return type(column.values[0]).__name__ if len(column.values) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMetadata:
    """What events of one kind have in common. `display_name` is a shorter name, or empty."""

    name: str
    display_name: str = ""
    stats: Stats = field(default_factory=dict[str, StatValue])
    children: tuple[int, ...] = ()

    @property
    def short_name(self) -> str:
        """The name for a table."""
        return self.display_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Events in a row. `began_ns` is the time that their offsets count from."""

    id: int
    name: str
    began_ns: int = 0
    events: Events = field(default_factory=Events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A device or the host."""

    id: int
    name: str
    lines: tuple[Line, ...] = ()
    metadata: Mapping[int, EventMetadata] = field(default_factory=dict[int, EventMetadata])
    stats: Stats = field(default_factory=dict[str, StatValue])

    def line(self, name: str) -> Line | None:
        """The first line of this name."""
        return next((line for line in self.lines if line.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A whole profile of one host."""

    planes: tuple[Plane, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()

    def plane(self, name: str) -> Plane | None:
        """The first plane of this name."""
        return next((plane for plane in self.planes if plane.name == name), None)
