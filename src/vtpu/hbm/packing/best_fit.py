"""Best fit in a given order, with a view over all of time: SPATIAL and TEMPORAL.

Follows the public description of XLA's `GlobalDecreasingSizeBestFitHeap`
(openxla/xla, `xla/service/heap_simulator/heap_simulator.cc`). Later groups may use the ticks between
the lives of a group's members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from vtpu.hbm.packing.problem import Group, round_up

Order = Callable[[Group], tuple[int, int, int]]


def by_size(group: Group) -> tuple[int, int, int]:
    """SPATIAL: large groups first, then those whose owner lives long, then by id."""
    owner = group.owner
    return -group.size, owner.start - owner.end, owner.buffer


def by_life(group: Group) -> tuple[int, int, int]:
    """TEMPORAL: groups that live long first, then large ones, then by id."""
    return group.start - group.end, -group.size, group.owner.buffer


def best_fit(found: Iterable[Group], order: Order, alignment: int) -> dict[int, int]:
    """Offsets of the owners: each group in turn takes the tightest gap that is free whenever it lives."""
    queue = sorted(found, key=order)
    shelf = _Shelf(sum(len(g.members) for g in queue), alignment)
    return {g.owner.buffer: shelf.place(g) for g in queue}


class _Shelf:
    """The lives that have their place, sorted by offset. Columns, because each group asks all of them."""

    def __init__(self, capacity: int, alignment: int) -> None:
        self._rows = np.zeros((4, capacity), dtype=np.int64)  # offset, aligned top, start, end
        self._count = 0
        self._alignment = alignment

    def place(self, group: Group) -> int:
        offset = self._tightest(*self._taken(group), group.size)
        self._insert(group, offset)
        return offset

    def _taken(self, group: Group) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Offsets and tops of all that is alive together with a member of `group`, by offset."""
        offsets, tops, starts, ends = self._rows[:, : self._count]
        meets = np.zeros(self._count, dtype=np.bool_)
        for member in group.members:
            meets |= (starts <= member.end) & (ends >= member.start)
        where = np.flatnonzero(meets)
        return offsets[where], tops[where]

    @staticmethod
    def _tightest(offsets: NDArray[np.int64], tops: NDArray[np.int64], size: int) -> int:
        """The start of the smallest gap that holds `size`; the lowest of equals; else above all."""
        if not len(offsets):
            return 0
        floors = np.maximum.accumulate(
            np.concatenate(([0], tops))
        )  # a gap begins above all below it
        gaps = offsets - floors[:-1]
        holding = np.flatnonzero(gaps >= size)
        return int(floors[holding[np.argmin(gaps[holding])]] if len(holding) else floors[-1])

    def _insert(self, group: Group, offset: int) -> None:
        count, more, rows = self._count, len(group.members), self._rows
        at = int(np.searchsorted(rows[0, :count], offset))
        rows[:, at + more : count + more] = rows[:, at:count].copy()
        rows[0, at : at + more] = offset
        rows[1, at : at + more] = round_up(offset + group.size, self._alignment)
        rows[2, at : at + more] = [m.start for m in group.members]
        rows[3, at : at + more] = [m.end for m in group.members]
        self._count += more
