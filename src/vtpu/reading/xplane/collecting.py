"""Events that are made one by one, as the columns of a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vtpu.reading.xplane.space import EventMetadata, Events, StatColumn, StatValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An event: the number of its kind, when it began and how long it took, and its stats."""

    metadata: int
    offset_ps: int
    duration_ps: int
    stats: Mapping[str, StatValue] = field(default_factory=dict[str, StatValue])


class Kinds:
    """The kinds of a plane's events under construction, numbered from 1."""

    def __init__(self) -> None:
        self.metadata: dict[int, EventMetadata] = {}
        self._numbers: dict[str, int] = {}

    def named(self, name: str) -> int:
        """The number of a kind that is nothing but a name."""
        if name not in self._numbers:
            self._numbers[name] = self.add(EventMetadata(name=name))
        return self._numbers[name]

    def add(self, metadata: EventMetadata) -> int:
        """The number of a further kind."""
        number = len(self.metadata) + 1
        self.metadata[number] = metadata
        return number


def collect(entries: Iterable[Entry]) -> Events:
    """The events in the order in which they began, an outer one before those in it."""
    ordered = sorted(entries, key=lambda e: (e.offset_ps, -e.duration_ps))
    return Events(
        metadata=_ints([e.metadata for e in ordered]),
        offset_ps=_ints([e.offset_ps for e in ordered]),
        duration_ps=_ints([e.duration_ps for e in ordered]),
        stats=_columns(ordered),
    )


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.fromiter(values, np.int64, len(values))


def _columns(entries: Sequence[Entry]) -> tuple[StatColumn, ...]:
    found: dict[tuple[str, np.dtype], tuple[list[int], list[StatValue]]] = {}
    for row, entry in enumerate(entries):
        for name, value in entry.stats.items():
            rows, values = found.setdefault((name, _dtype(value)), ([], []))
            rows.append(row)
            values.append(value)
    return tuple(
        StatColumn(name, _ints(rows), np.fromiter(values, kind, len(values)))
        for (name, kind), (rows, values) in found.items()
    )


def _dtype(value: StatValue) -> np.dtype:
    if isinstance(value, float):
        return np.dtype(np.float64)
    if isinstance(value, int):
        return np.dtype(np.int64 if value < 1 << 63 else np.uint64)
    return np.dtype(object)
