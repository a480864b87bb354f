"""The free pieces of an address range. Pieces that touch are always one."""

from __future__ import annotations

from bisect import bisect_left, insort

_ADDRESS_BITS = 64
_ADDRESS = (1 << _ADDRESS_BITS) - 1


class FreeBlocks:
    """Free pieces, found by size or by neighbour. Addresses and sizes in bytes.

    `_order` holds `size << 64 | address`, sorted: integers compare faster than pairs.
    """

    __slots__ = ("_order", "_size_at", "_start_of_end")

    def __init__(self) -> None:
        self._order: list[int] = []
        self._size_at: dict[int, int] = {}
        self._start_of_end: dict[int, int] = {}

    def add(self, start: int, size: int) -> None:
        """`size` > 0 bytes at `start` become free, and join their free neighbours."""
        lower = self._start_of_end.get(start)
        if lower is not None:
            size += self.remove(lower)
            start = lower
        if start + size in self._size_at:
            size += self.remove(start + size)
        self._size_at[start] = size
        self._start_of_end[start + size] = start
        insort(self._order, size << _ADDRESS_BITS | start)

    def remove(self, start: int) -> int:
        """The piece at `start` is free no more; its size."""
        size = self._size_at.pop(start)
        del self._start_of_end[start + size]
        del self._order[bisect_left(self._order, size << _ADDRESS_BITS | start)]
        return size

    def best(self, size: int) -> int | None:
        """The start of the smallest piece that holds `size`, of equals the lowest."""
        at = bisect_left(self._order, size << _ADDRESS_BITS)
        return self._order[at] & _ADDRESS if at < len(self._order) else None

    def lowest(self, size: int) -> int | None:
        """The start of the lowest piece that holds `size`."""
        return min(self._holding(size), default=None)

    def highest(self, size: int) -> int | None:
        """The start of the highest piece that holds `size`."""
        return max(self._holding(size), default=None)

    def _holding(self, size: int) -> list[int]:
        at = bisect_left(self._order, size << _ADDRESS_BITS)
        return [entry & _ADDRESS for entry in self._order[at:]]

    @property
    def largest(self) -> int:
        """Bytes of the largest piece; 0 when nothing is free."""
        return self._order[-1] >> _ADDRESS_BITS if self._order else 0

    def largest_start(self, size: int) -> int | None:
        """The start of the largest piece, if it holds `size`."""
        return self._order[-1] & _ADDRESS if self.largest >= size else None

    def size_at(self, start: int) -> int:
        """Bytes of the piece that starts at `start`; 0 if none does."""
        return self._size_at.get(start, 0)

    def size_below(self, end: int) -> int:
        """Bytes of the piece that ends at `end`; 0 if none does."""
        return end - self._start_of_end.get(end, end)
