"""Best fit in program order with one free list: FAST_MERGE.

Follows the public description of XLA's `AllocateBuffersSortedByTimeInSingleHeap`
(openxla/xla, `xla/service/heap_simulator/heap_simulator.cc`). A group is one block from its first tick
to its last. Nothing looks ahead to large buffers that come later, which is why it fragments.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush

from vtpu.hbm.packing.problem import Group, round_up

_OPEN = 1 << 62  # the end of the address line: no heap comes near


def fast_merge(found: Iterable[Group], alignment: int, floor: int = 0) -> dict[int, int]:
    """Offsets of the owners, none below `floor`."""
    free, ending = _FreeList(floor, alignment), list[tuple[int, int, int]]()
    offsets: dict[int, int] = {}
    for group in sorted(found, key=_in_program_order):
        while ending and ending[0][0] < group.start:  # ends are included
            _, first, last = heappop(ending)
            free.give(first, last)
        first, offset = free.take(group.size)
        heappush(ending, (group.end, first, offset + group.size))
        offsets[group.owner.buffer] = offset
    return offsets


def _in_program_order(group: Group) -> tuple[int, int, int]:
    return group.start, -group.size, group.owner.buffer


class _FreeList:
    """Free ranges of addresses; neighbours are joined.

    A range is sorted by what it holds after its start is aligned, then by address.
    """

    def __init__(self, floor: int, alignment: int) -> None:
        self._alignment = alignment
        self._by_room: list[tuple[int, int]] = []
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._add(floor, _OPEN)

    def take(self, size: int) -> tuple[int, int]:
        """Where the tightest range for `size` begins, and the aligned offset in it.

        All from the range's start is taken: the bytes before the offset go with the block.
        """
        _, first = self._by_room[bisect_left(self._by_room, (size, -1))]
        last = self._remove(first)
        offset = round_up(first, self._alignment)
        if offset + size < last:
            self._add(offset + size, last)
        return first, offset

    def give(self, first: int, last: int) -> None:
        """Makes `first` to `last` (excluded) free."""
        if last in self._ends:
            last = self._remove(last)
        if first in self._starts:
            first = self._starts[first]
            self._remove(first)
        self._add(first, last)

    def _add(self, first: int, last: int) -> None:
        self._ends[first], self._starts[last] = last, first
        insort(self._by_room, self._key(first, last))

    def _remove(self, first: int) -> int:
        last = self._ends.pop(first)
        del self._starts[last]
        del self._by_room[bisect_left(self._by_room, self._key(first, last))]
        return last

    def _key(self, first: int, last: int) -> tuple[int, int]:
        return last - round_up(first, self._alignment), first
