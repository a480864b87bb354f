"""Heaps of a program as packing problems, and which algorithm made their offsets.

The compiler's trace of a heap has its events; sizes and offsets are those of the assignment. Buffers
are found by where they are placed: the allocation that a trace names may be stale. The algorithm and
the alignment are found by replaying the trace, never assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from vtpu.hbm.packing.algorithms import FALLBACK_MARGIN_BYTES, Algorithm, pack
from vtpu.hbm.packing.checker import violations
from vtpu.hbm.packing.problem import Event, Packing, Trace
from vtpu.program.memory import (
    Allocation,
    BufferAssignment,
    HeapEvent,
    HeapEventKind,
    HeapTrace,
    Placed,
)
from vtpu.units import KIB

LARGEST_ALIGNMENT_BYTES = 16 * KIB  # of HBM in libtpu 0.0.42 to 0.0.52; no space has a larger one
_MOST_EVENTS_TO_SEARCH = 4000  # with more, the common divisor of all offsets is the alignment
_DISTINCT = (Algorithm.SPATIAL, Algorithm.TEMPORAL, Algorithm.FAST_MERGE, Algorithm.FAST_SPLIT)


@dataclass(frozen=True, slots=True)
class Heap:
    """A traced heap: its events, and where the compiler put its buffers.

    `base` is the lowest address of a traced buffer in the allocation, from which `packing` counts.
    `alignment` is the largest that all offsets have, None where all buffers lie at the base.
    """

    allocation: Allocation
    events: tuple[HeapEvent, ...]
    trace: Trace
    packing: Packing
    base: int
    alignment: int | None

    def is_legal(self) -> bool:
        """Whether the compiler's packing keeps apart what its trace has alive at the same time.

        Where it does not, buffers share memory in ways that the trace does not tell (as in VMEM), and
        nothing about the heap can be concluded from it.
        """
        return not violations(self.trace, self.packing)

    def untraced(self) -> tuple[Placed, ...]:
        """What lies in the allocation and is in no trace."""
        return tuple(p for p in self.allocation.placed if p.buffer not in self.packing.offsets)


@dataclass(frozen=True, slots=True)
class BrokenHeap:
    """A heap whose trace cannot be replayed, and why."""

    allocation: Allocation
    problem: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What an algorithm makes of a heap: how large it is, how many buffers lie as the compiler's do."""

    algorithm: Algorithm
    heap_bytes: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class Replays:
    """All algorithms on one heap of `compared` buffers, at the alignment that fits the offsets best."""

    alignment: int | None
    compared: int
    found: tuple[Replay, ...]

    @property
    def exact(self) -> tuple[Algorithm, ...]:
        """Those that reproduce every offset; on small heaps often several."""
        return tuple(r.algorithm for r in self.found if r.agreeing == self.compared)

    @property
    def nearest(self) -> Replay:
        """One that reproduces the most offsets."""
        return max(self.found, key=lambda replay: replay.agreeing)


def find_heaps(assignment: BufferAssignment) -> Iterator[Heap | BrokenHeap]:
    """The heaps of an assignment that have a trace."""
    where = {p.buffer: (a, p) for a in assignment.allocations for p in a.placed}
    for trace in assignment.traces:
        allocation = _allocation(trace, where)
        if allocation:
            yield _heap(trace, allocation, {p.buffer: p for p in allocation.placed})


def replay_heap(heap: Heap, limit: int | None = None) -> Replays:
    """Every algorithm on a heap. `limit`: what the heap may take in bytes, for the fallback's rule."""
    tried: list[Replays] = []
    for alignment in _candidates(heap):
        tried.append(_replay(heap, alignment, limit))
        if tried[-1].exact:
            break
    return max(tried, key=lambda replays: replays.nearest.agreeing)


def pack_with_all(trace: Trace, limit: int | None = None) -> dict[Algorithm, Packing]:
    """What `pack` gives for each algorithm, each computed once."""
    packings = {algorithm: pack(trace, algorithm) for algorithm in _DISTINCT}
    spatial, temporal, merged, _ = packings.values()
    best = temporal if temporal.heap_size < spatial.heap_size else spatial
    packings[Algorithm.BEST_OF_SPATIAL_TEMPORAL] = best
    if limit is not None:
        keeps = merged.heap_size <= limit - FALLBACK_MARGIN_BYTES
        packings[Algorithm.FAST_MERGE_WITH_FALLBACK] = merged if keeps else best
    return packings


def _allocation(
    trace: HeapTrace, where: Mapping[int, tuple[Allocation, Placed]]
) -> Allocation | None:
    """Where most of a trace's buffers are placed."""
    found = {e.buffer: where[e.buffer][0] for e in trace.events if e.buffer in where}
    counts = Counter(allocation.index for allocation in found.values())
    if not counts:
        return None
    (index, _), *_ = counts.most_common(1)
    return next(a for a in found.values() if a.index == index)


def _heap(
    trace: HeapTrace, allocation: Allocation, places: Mapping[int, Placed]
) -> Heap | BrokenHeap:
    missing = {e.buffer for e in trace.events} - places.keys()
    if missing:
        problem = f"{len(missing)} buffers of its trace are not placed in it"
        return BrokenHeap(allocation, problem)
    traced = [places[e.buffer] for e in trace.events if e.kind is not HeapEventKind.FREE]
    base = min((p.offset for p in traced if p.size), default=0)
    # what has no bytes may be anywhere
    offsets = {p.buffer: max(p.offset - base, 0) for p in traced}
    alignment = _alignment(offsets)
    try:
        events = Trace(tuple(_event(e, places) for e in trace.events), alignment or 1)
    except ValueError as error:
        return BrokenHeap(allocation, str(error))
    extent = max((p.offset + p.size for p in traced if p.size), default=base) - base
    return Heap(allocation, trace.events, events, Packing(offsets, extent), base, alignment)


def _event(event: HeapEvent, places: Mapping[int, Placed]) -> Event:
    if event.kind is HeapEventKind.FREE:
        return Event.free(event.buffer)
    size = places[event.buffer].size
    if event.shares is None:
        return Event.allocate(event.buffer, size)
    return Event.share(event.buffer, size, event.shares)


def _alignment(offsets: Mapping[int, int]) -> int | None:
    common = gcd(*offsets.values())
    return min(common & -common, LARGEST_ALIGNMENT_BYTES) if common else None


def _candidates(heap: Heap) -> Iterator[int]:
    """Alignments that the offsets allow, largest first, to one that all sizes are multiples of.

    Smaller ones give the same packings as that.
    """
    alignment = heap.trace.alignment
    sizes = gcd(*(e.size for e in heap.trace.events))
    yield alignment
    while alignment > 1 and sizes % alignment and len(heap.events) <= _MOST_EVENTS_TO_SEARCH:
        alignment //= 2
        yield alignment


def _replay(heap: Heap, alignment: int, limit: int | None) -> Replays:
    packings = pack_with_all(replace(heap.trace, alignment=alignment), limit)
    found = tuple(
        Replay(algorithm, packing.heap_size, _agreeing(packing, heap.packing))
        for algorithm, packing in packings.items()
    )
    known = None if heap.alignment is None else alignment
    return Replays(known, len(heap.packing.offsets), found)


def _agreeing(one: Packing, other: Packing) -> int:
    return sum(one.offsets[buffer] == offset for buffer, offset in other.offsets.items())
