"""The TPU runtime's arena with every property that is not public as a parameter.

Public: a program's temporaries are one block "at the bottom of memory" that counts as reserved and not
as in use (messages of the runtime); a buffer that finds no room may have memory defragmented and loaded
programs evicted, a program that finds none is promised nothing (openxla/xla `docs/errors/error_0100.md`,
`error_0101.md`); sizes and limits are multiples of 512. The rest is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vtpu.hbm.free_blocks import FreeBlocks


class Fit(StrEnum):
    """Which free piece a buffer is carved from."""

    BEST = "best"  # the smallest that holds it
    FIRST = "first"  # the first from the end that is filled
    WORST = "worst"  # the largest


class End(StrEnum):
    """From which end of memory buffers fill it. Programs reserve at the other one."""

    HIGH = "high"
    LOW = "low"


class Compaction(StrEnum):
    """When buffers are moved together."""

    NEVER = "never"
    FOR_BUFFERS = "when a buffer finds no room"
    FOR_ANYTHING = "when a buffer or a program finds no room"


class Reservations(StrEnum):
    """How long a program keeps the block of its temporaries."""

    WHILE_RUNNING = "one, while a program runs"
    PER_PROGRAM = "one for each program, until a buffer needs the room"


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuAssumptions:
    """What is assumed of the TPU runtime's allocator. The defaults are those of the virtual slice."""

    fit: Fit = Fit.BEST
    end: End = End.HIGH
    quantum_bytes: int = 512
    compaction: Compaction = Compaction.NEVER
    reservations: Reservations = Reservations.WHILE_RUNNING


@dataclass(slots=True, eq=False)
class MovableBlock:
    """A block in use. Compaction changes its address."""

    address: int
    size: int


class TwoEndedArena:
    """HBM of `limit` bytes: buffers from one end, reservations of programs at the other."""

    __slots__ = ("_assumed", "_free", "_in_use", "_kept", "_limit", "_live", "_reserved")

    def __init__(self, limit: int, assumptions: TpuAssumptions | None = None) -> None:
        if limit <= 0:
            raise ValueError(f"an arena of {limit} bytes")
        self._assumed = assumptions or TpuAssumptions()
        self._limit = limit
        self._free = FreeBlocks()
        self._free.add(0, limit)
        self._live: dict[int, MovableBlock] = {}
        self._kept: set[int] = set()  # programs whose reservations stay
        self._in_use = self._reserved = 0

    def allocate(self, size: int) -> MovableBlock | None:
        """A block of at least `size` > 0 bytes; None when no remedy makes room for it."""
        if size <= 0:
            raise ValueError(f"a block of {size} bytes")
        size = self._round(size)
        block = self._place(size)
        if block is None and self._assumed.compaction is not Compaction.NEVER:
            self._compact()
            block = self._place(size)
        if block is None and self._kept:
            self._evict_programs()
            block = self._place(size)
        return block

    def free(self, block: MovableBlock) -> None:
        """Gives a block back; once."""
        if self._live.get(block.address) is not block:
            raise ValueError("the block was freed before")
        del self._live[block.address]
        self._free.add(block.address, block.size)
        self._in_use -= block.size

    def reserve(self, size: int, program: int = 0) -> bool:
        """Whether a run of `program` finds `size` bytes in one piece where programs reserve."""
        if program in self._kept:
            return True
        if size > self.reservable and self._assumed.compaction is Compaction.FOR_ANYTHING:
            self._compact()
        if size > self.reservable:
            return False
        if self._assumed.reservations is Reservations.PER_PROGRAM:
            self._keep(program, min(self._round(size), self.reservable))
        return True

    @property
    def limit(self) -> int:
        """The size of the arena."""
        return self._limit

    @property
    def in_use(self) -> int:
        """Bytes in blocks that are in use."""
        return self._in_use

    @property
    def reserved(self) -> int:
        """Bytes that programs keep between their runs."""
        return self._reserved

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free piece."""
        return self._free.largest

    @property
    def reservable(self) -> int:
        """Bytes of the free piece beside what is reserved."""
        if self._assumed.end is End.HIGH:
            return self._free.size_at(self._reserved)
        return self._free.size_below(self._limit - self._reserved)

    @property
    def pool_bytes(self) -> int:
        """Bytes taken from the chip: all of them."""
        return self._limit

    def _round(self, size: int) -> int:
        quantum = self._assumed.quantum_bytes
        return -(-size // quantum) * quantum

    def _find(self, size: int) -> int | None:
        if self._assumed.fit is Fit.BEST:
            return self._free.best(size)
        if self._assumed.fit is Fit.WORST:
            return self._free.largest_start(size)
        fill_high = self._assumed.end is End.HIGH
        return self._free.highest(size) if fill_high else self._free.lowest(size)

    def _place(self, size: int) -> MovableBlock | None:
        start = self._find(size)
        if start is None:
            return None
        rest = self._free.remove(start) - size
        at_high_end = self._assumed.end is End.HIGH
        if rest:
            self._free.add(start if at_high_end else start + size, rest)
        block = MovableBlock(start + rest if at_high_end else start, size)
        self._live[block.address] = block
        self._in_use += size
        return block

    def _compact(self) -> None:
        """Moves all buffers together at the end that they fill, in their order."""
        is_high = self._assumed.end is End.HIGH
        blocks = [self._live[a] for a in sorted(self._live, reverse=is_high)]
        edge = self._limit if is_high else 0
        for block in blocks:
            edge -= block.size if is_high else 0
            block.address = edge
            edge += 0 if is_high else block.size
        self._live = {block.address: block for block in blocks}
        self._free = FreeBlocks()
        room = self._limit - self._in_use - self._reserved
        if room:
            self._free.add(self._reserved if is_high else edge, room)

    def _keep(self, program: int, size: int) -> None:
        """What is reserved grows by `size`, into the free piece beside it."""
        room = self.reservable
        start = self._reserved
        if self._assumed.end is End.LOW:
            start = self._limit - self._reserved - room
        self._free.remove(start)
        if room > size:
            self._free.add(start + size if self._assumed.end is End.HIGH else start, room - size)
        self._reserved += size
        self._kept.add(program)

    def _evict_programs(self) -> None:
        start = 0 if self._assumed.end is End.HIGH else self._limit - self._reserved
        self._free.add(start, self._reserved)
        self._kept.clear()
        self._reserved = 0
