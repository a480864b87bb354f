"""The BFC allocator ("best fit with coalescing") of XLA's GPU client and of TensorFlow.

Rules of openxla/xla `xla/tsl/framework/bfc_allocator.cc`. JAX gives it one region of a fraction of the
memory (`xla/pjrt/gpu/gpu_helpers.cc`); TensorFlow can let it grow by regions and collect idle ones.

The original looks through 21 bins of sizes, upward from the request's, each sorted by size and address.
Bins are in order of size too, so the first chunk that fits is the smallest, of equals the lowest.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from vtpu.hbm.free_blocks import FreeBlocks

_QUANTUM = 256  # kMinAllocationSize
_MOST_LEFT_INSIDE = 128 << 20  # kMaxInternalFragmentation
_FIRST_REGION = 2 << 20  # the first region under allow_growth
_APART = _QUANTUM  # regions are allocations of their own: chunks never join across them


@dataclass(slots=True, eq=False)
class _Region:
    start: int
    size: int
    in_use: int = 0


@dataclass(slots=True, eq=False)
class Chunk:
    """A block in use. Its size may be more than was asked for."""

    address: int
    size: int
    region: _Region
    is_freed: bool = False


class Bfc:
    """A pool of at most `limit` bytes.

    `growth`: regions are taken when needed, from 2 MiB on and doubling; else one region of the limit is
    taken at once. `garbage_collection`: regions without a chunk in use are given back when that lets
    a region for the request be had.
    """

    __slots__ = (
        "_collects", "_free", "_idle", "_in_use", "_limit", "_next_address", "_next_size", "_pool",
        "_regions", "_starts",
    )  # fmt: skip

    def __init__(
        self, limit: int, *, growth: bool = False, garbage_collection: bool = False
    ) -> None:
        if limit < _QUANTUM:
            raise ValueError(f"a pool of {limit} bytes")
        self._limit = limit // _QUANTUM * _QUANTUM
        self._collects = garbage_collection
        self._free = FreeBlocks()
        self._starts: list[int] = []
        self._regions: list[_Region] = []  # by start
        self._next_address = 0
        self._next_size = min(_FIRST_REGION, self._limit) if growth else self._limit
        self._in_use = self._pool = self._idle = 0
        if not growth:
            self._extend(self._limit)

    def allocate(self, size: int) -> Chunk | None:
        """A chunk of at least `size` > 0 bytes; None when none fits and no region can be had."""
        if size <= 0:
            raise ValueError(f"a block of {size} bytes")
        size = -(-size // _QUANTUM) * _QUANTUM
        start = self._free.best(size)
        if start is None and (self._extend(size) or (self._collect(size) and self._extend(size))):
            start = self._free.best(size)
        return None if start is None else self._take(start, size)

    def free(self, block: Chunk) -> None:
        """Gives a chunk back; once."""
        if block.is_freed:
            raise ValueError("the block was freed before")
        block.is_freed = True
        self._free.add(block.address, block.size)
        self._in_use -= block.size
        block.region.in_use -= block.size
        if not block.region.in_use:
            self._idle += block.region.size

    def reserve(self, size: int, program: int = 0) -> bool:  # noqa: ARG002 - no program is special
        """Whether a run finds `size` bytes: a chunk of the same pool, freed after the run."""
        if self._free.best(size) is not None:
            return True  # taking the chunk and freeing it again leaves all as it is
        chunk = self.allocate(size)
        if chunk is not None:
            self.free(chunk)
        return chunk is not None

    @property
    def limit(self) -> int:
        """The most that the pool may have."""
        return self._limit

    @property
    def in_use(self) -> int:
        """Bytes in chunks that are in use, with what rounding and whole chunks add."""
        return self._in_use

    @property
    def reserved(self) -> int:
        """Bytes that programs keep between their runs: none."""
        return 0

    @property
    def largest_free(self) -> int:
        """The largest request that would be met: by a chunk, or by a region that can be had."""
        more = self._limit - self._pool + self._idle * self._collects
        return max(self._free.largest, more)

    @property
    def reservable(self) -> int:
        """The same: temporaries are chunks like others."""
        return self.largest_free

    @property
    def pool_bytes(self) -> int:
        """Bytes of all regions."""
        return self._pool

    @property
    def regions(self) -> tuple[int, ...]:
        """The sizes of the regions in the order in which they were taken."""
        return tuple(region.size for region in self._regions)

    def _take(self, start: int, size: int) -> Chunk:
        """The chunk at `start`: split if it is twice as large, or 128 MiB larger; else whole."""
        chunk = self._free.remove(start)
        if chunk >= 2 * size or chunk - size >= _MOST_LEFT_INSIDE:
            self._free.add(start + size, chunk - size)
            chunk = size
        region = self._regions[bisect_right(self._starts, start) - 1]
        if not region.in_use:
            self._idle -= region.size
        region.in_use += chunk
        self._in_use += chunk
        return Chunk(start, chunk, region)

    def _extend(self, size: int) -> bool:
        """Takes a region that holds `size`, if the limit allows one."""
        available = self._limit - self._pool
        if size > available:
            return False
        jumps = size > self._next_size
        while size > self._next_size:
            self._next_size *= 2
        region = _Region(self._next_address, min(self._next_size, available))
        if not jumps:
            self._next_size *= 2
        self._next_address += region.size + _APART
        self._regions.append(region)
        self._starts.append(region.start)
        self._free.add(region.start, region.size)
        self._pool += region.size
        self._idle += region.size
        return True

    def _collect(self, size: int) -> bool:
        """Gives idle regions back, if a region of `size` can be had then."""
        if not self._collects or not self._idle:
            return False
        if size > self._limit - self._pool + self._idle:
            return False
        for region in self._regions:
            if not region.in_use:
                self._free.remove(region.start)
        self._regions = [region for region in self._regions if region.in_use]
        self._starts = [region.start for region in self._regions]
        self._pool -= self._idle
        self._idle = 0
        return True
