"""The links between a host and its chips: each direction carries one transfer after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from vtpu.clock.torus import Coords, Position


def links_of(positions: Mapping[int, Position]) -> dict[int, int]:
    """The link to the host of each device, numbered from 0: devices of one chip share it."""
    chips: dict[tuple[Coords, int], int] = {}
    return {
        device: chips.setdefault((at.coords, at.slice_index), len(chips))
        for device, at in positions.items()
    }


class LinkLane:
    """One direction of one link. Times are nanoseconds.

    Transfers are carried in the order in which they are asked for in virtual time. Threads ask for them
    in another order, so a transfer may go into a gap that is still free.
    """

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []  # of the stretches in which it is busy, apart and in order

    def carry(self, at_ns: int, length_ns: int) -> int:
        """Has a transfer of `length_ns` carried, not before `at_ns`; when it begins."""
        i = bisect_right(self._ends, at_ns)
        begin = at_ns
        while i < len(self._begins) and self._begins[i] < begin + length_ns:
            begin = max(begin, self._ends[i])
            i += 1
        if length_ns:
            self._note(i, begin, begin + length_ns)
        return begin

    def _note(self, i: int, begin: int, end: int) -> None:
        """Marks [begin, end) as busy; `i` is the next stretch behind it."""
        joins_next = i < len(self._begins) and self._begins[i] == end
        if i and self._ends[i - 1] == begin:
            self._ends[i - 1] = self._ends.pop(i) if joins_next else end
            if joins_next:
                del self._begins[i]
        elif joins_next:
            self._begins[i] = begin
        else:
            self._begins.insert(i, begin)
            self._ends.insert(i, end)
