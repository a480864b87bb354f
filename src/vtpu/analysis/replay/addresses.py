"""What lies where in a device's HBM: blocks, the gaps between them, what stands in the way of a piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtpu.recording.events import EventKind, MemoryKind, memory_kinds
from vtpu.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class BlockAt:
    """A block that was in use at a moment. Bytes."""

    address: int
    size: int
    block: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """Free memory between blocks, bytes: all of it, the largest piece, the piece at address 0."""

    free: int
    largest: int
    at_bottom: int

    @property
    def fragmentation(self) -> float:
        """The part of free memory outside of its largest piece."""
        return 1 - self.largest / self.free if self.free > 0 else 0.0


def gaps_between(blocks: Sequence[BlockAt], limit: int) -> Gaps:
    """The gaps between blocks (by address) in `limit` bytes."""
    starts = [0, *(b.address + b.size for b in blocks)]
    ends = [*(b.address for b in blocks), limit]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    return Gaps(limit - sum(b.size for b in blocks), max(sizes), sizes[0])


def in_the_way(
    blocks: Sequence[BlockAt], wanted: int, limit: int, *, at_bottom: bool
) -> tuple[BlockAt, ...]:
    """The blocks (by address) without which a piece of `wanted` bytes would be free: of all ways to have
    one the blocks with the fewest bytes. `at_bottom`: the piece has to begin at address 0.
    """
    if at_bottom:
        return tuple(b for b in blocks if b.address < wanted)
    starts = [0, *(b.address + b.size for b in blocks)]  # piece i begins behind block i - 1
    ends = [*(b.address for b in blocks), limit]
    sizes = np.cumsum([0, *(b.size for b in blocks)])
    best: tuple[int, int, int] | None = None
    last = 0
    for first, start in enumerate(starts):
        last = max(last, first)
        while last < len(blocks) and ends[last] - start < wanted:
            last += 1
        if ends[last] - start < wanted:
            break
        cost = int(sizes[last] - sizes[first])
        if best is None or cost < best[0]:
            best = (cost, first, last)
    return tuple(blocks[best[1] : best[2]]) if best else ()


def alive_rows(recording: Recording, device: int, event: int) -> np.ndarray:
    """The allocations of what HBM of `device` held just before event number `event`."""
    events = recording.events[:event]
    here = (events["device"] == device) & (memory_kinds(events) == MemoryKind.DEVICE)
    made = np.flatnonzero(here & (events["kind"] == EventKind.ALLOCATE))
    gone = events["subject"][here & (events["kind"] == EventKind.FREE)]
    return made[~np.isin(events["subject"][made], gone)]


def recorded_blocks(recording: Recording, device: int, event: int) -> tuple[BlockAt, ...]:
    """What was where on `device` just before `event`; `block` is the row of its making."""
    rows = alive_rows(recording, device, event)
    events = recording.events[rows]
    found = [
        BlockAt(int(address), int(size), int(row))
        for address, size, row in zip(events["address"], events["bytes"], rows, strict=True)
        if address >= 0
    ]
    return tuple(sorted(found, key=lambda b: b.address))
