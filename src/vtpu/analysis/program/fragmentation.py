"""Fragmentation inside a program: how its heaps are packed, what is lost, what would be smaller.

An allocation of temporaries is one packed heap and, beside it, slots for tuple tables. At the packed
heap's peak it is, exactly: bytes alive + gaps + slots of tables + what is between those parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vtpu.analysis.program.exact_window import WindowPacking, pack_window
from vtpu.analysis.program.heap_replay import BrokenHeap, Heap, Replays, find_heaps, replay_heap
from vtpu.analysis.program.memory import MemoryItem, MemoryUsage
from vtpu.analysis.program.tuple_tables import Tables, find_tables
from vtpu.hbm.packing import Algorithm, aligned_bound, gaps, live_bound
from vtpu.hbm.packing.problem import Trace, lives
from vtpu.program.memory import AllocationKind, MemorySpace, ProgramMemory, space_name
from vtpu.reading.fragmentation_figures import FragmentationFigures, read_fragmentation_figures

ALGORITHM_OPTION = "xla_tpu_buffer_assignment_algorithm"
WORTH_TRYING_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class PeakGap:
    """Free addresses of an allocation at the packed heap's peak, and what lies below and above.

    A neighbour is None at the heap's ends. `is_alignment`: it is shorter than the alignment and ends
    at an aligned address, so no packing can use it while its lower neighbour stays.
    """

    offset: int
    size: int
    below: MemoryItem | None
    above: MemoryItem | None
    is_alignment: bool


@dataclass(frozen=True, slots=True)
class CompilerFigure:
    """The fragmentation that libtpu logged for a space, and what ours is of it.

    libtpu's counts tuple tables' slots; it counts buffers that share memory as if each had its own,
    so that it can be too small, and negative with loops. `unexplained_bytes` are what then remains.
    """

    figures: FragmentationFigures
    gap_bytes: int
    slot_padding_bytes: int
    shared_buffers: int

    @property
    def unexplained_bytes(self) -> int:
        """The logged figure without the gaps and the slots' padding; rounding of the log included."""
        return self.figures.fragmentation_bytes - self.gap_bytes - self.slot_padding_bytes


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A value of `xla_tpu_buffer_assignment_algorithm` to try: an estimate until it is compiled."""

    algorithm: Algorithm
    heap_bytes: int
    saved_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedHeap:
    """What a heap that its trace describes needs and loses.

    `live_bytes`: the most that is alive at once, at `peak_instruction`; `aligned_bytes`: the smallest
    heap that could be with this alignment. `gaps` sum up to `packed_bytes - live_bytes`.
    """

    live_bytes: int
    aligned_bytes: int
    peak_instruction: str
    gaps: tuple[PeakGap, ...]
    suggestion: Suggestion | None
    compiler_figure: CompilerFigure | None
    exact: WindowPacking | None

    @property
    def gap_bytes(self) -> int:
        """Bytes that are free at the peak inside of the packed heap."""
        return sum(gap.size for gap in self.gaps)

    @property
    def alignment_bytes(self) -> int:
        """The part of the gaps that aligned starts cost."""
        return sum(gap.size for gap in self.gaps if gap.is_alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapFragmentation:
    """A heap of temporaries.

    `packed_bytes`: from the lowest to the highest traced address; `tables`: beside those; `other_bytes`:
    the rest of the allocation. `packed` is None where the trace does not describe the heap, which
    `problem` then says.
    """

    color: int
    allocation: int
    allocation_bytes: int
    packed_bytes: int
    tables: Tables
    replays: Replays | None
    packed: PackedHeap | None
    problem: str | None = None

    @property
    def name(self) -> str:
        """HBM, VMEM, ..."""
        return space_name(self.color)

    @property
    def other_bytes(self) -> int:
        """What is neither packed by the trace nor a table's slot: joints between parts."""
        return self.allocation_bytes - self.packed_bytes - self.tables.slot_bytes


def analyse_fragmentation(
    memory: ProgramMemory, usage: MemoryUsage, *, exact: bool = False
) -> tuple[HeapFragmentation, ...]:
    """The heaps of a program's memory spaces. `usage` names what lies beside a gap.

    `exact`: the peak's window is packed by CP-SAT too, which takes seconds.

    Raises:
        UsageError: `exact` without OR-Tools.
    """
    items = {b: i for space in usage.spaces for i in space.items for b in i.occupant.buffers}
    logged = read_fragmentation_figures(memory.log)
    found = [
        _broken(heap)
        if isinstance(heap, BrokenHeap)
        else _analyse(heap, memory, items, logged, exact=exact)
        for heap in find_heaps(memory.assignment)
    ]
    return tuple(sorted(found, key=lambda heap: heap.color))


def _broken(heap: BrokenHeap) -> HeapFragmentation:
    return HeapFragmentation(
        color=heap.allocation.color,
        allocation=heap.allocation.index,
        allocation_bytes=heap.allocation.size,
        packed_bytes=heap.allocation.size,
        tables=Tables(0, 0, 0),
        replays=None,
        packed=None,
        problem=heap.problem,
    )


_NOT_DESCRIBED = (
    "by its trace, buffers that lie in one place are alive at the same time: they share memory in ways "
    "that the trace does not tell, so it has no bound and no gaps to show"
)


def _analyse(
    heap: Heap,
    memory: ProgramMemory,
    items: Mapping[int, MemoryItem],
    logged: Mapping[str, FragmentationFigures],
    *,
    exact: bool,
) -> HeapFragmentation:
    replays = replay_heap(heap, _room(heap, memory))
    tables = find_tables(heap, memory)
    figures = logged.get(space_name(heap.allocation.color).lower())
    is_described = heap.is_legal()
    return HeapFragmentation(
        color=heap.allocation.color,
        allocation=heap.allocation.index,
        allocation_bytes=heap.allocation.size,
        packed_bytes=heap.packing.heap_size,
        tables=tables,
        replays=replays,
        packed=_packed(heap, replays, tables, items, figures, exact=exact)
        if is_described
        else None,
        problem=None if is_described else _NOT_DESCRIBED,
    )


def _room(heap: Heap, memory: ProgramMemory) -> int | None:
    """What the heap may take of HBM, beside the program's other allocations."""
    if memory.limit_bytes is None or heap.allocation.color != MemorySpace.HBM:
        return None
    others = sum(
        a.size
        for a in memory.assignment.allocations
        if a.color == MemorySpace.HBM and a.kind is not AllocationKind.LOCAL
    )
    return memory.limit_bytes - (others - heap.packing.heap_size)


def _packed(
    heap: Heap,
    replays: Replays,
    tables: Tables,
    items: Mapping[int, MemoryItem],
    figures: FragmentationFigures | None,
    *,
    exact: bool,
) -> PackedHeap:
    trace = replace(heap.trace, alignment=replays.alignment or 1)
    bound = live_bound(trace)
    tick = bound.tick or 0
    found = _gaps(heap, trace, tick, items)
    return PackedHeap(
        live_bytes=bound.size,
        aligned_bytes=aligned_bound(trace).size,
        peak_instruction=heap.events[tick].instruction,
        gaps=found,
        suggestion=_suggestion(heap, replays),
        compiler_figure=_compiler_figure(heap, tables, found, figures),
        exact=pack_window(heap, trace) if exact else None,
    )


def _gaps(
    heap: Heap, trace: Trace, tick: int, items: Mapping[int, MemoryItem]
) -> tuple[PeakGap, ...]:
    offsets = heap.packing.offsets
    alive = [g for g in trace.groups if any(s <= tick <= e for s, e in lives(g))]
    starts = {offsets[g.owner.buffer]: g.owner.buffer for g in alive if g.size}
    ends = {offsets[g.owner.buffer] + g.size: g.owner.buffer for g in alive if g.size}
    return tuple(
        PeakGap(
            offset=heap.base + gap.offset,
            size=gap.size,
            below=_item(ends.get(gap.offset), items),
            above=_item(starts.get(gap.offset + gap.size), items),
            is_alignment=gap.size < trace.alignment
            and (gap.offset + gap.size) % trace.alignment == 0
            and gap.offset + gap.size in starts,
        )
        for gap in gaps(trace, heap.packing, tick)
    )


def _item(buffer: int | None, items: Mapping[int, MemoryItem]) -> MemoryItem | None:
    return None if buffer is None else items.get(buffer)


def _suggestion(heap: Heap, replays: Replays) -> Suggestion | None:
    """The smallest of the others, where it is worth a try and the model is known to be right."""
    if heap.allocation.color != MemorySpace.HBM or not replays.exact:
        return None
    smallest = min(replays.found, key=lambda replay: replay.heap_bytes)
    saved = heap.packing.heap_size - smallest.heap_bytes
    if saved <= WORTH_TRYING_SHARE * heap.packing.heap_size:
        return None
    return Suggestion(smallest.algorithm, smallest.heap_bytes, saved)


def _compiler_figure(
    heap: Heap, tables: Tables, found: tuple[PeakGap, ...], figures: FragmentationFigures | None
) -> CompilerFigure | None:
    if figures is None or not figures.padded_bytes:  # of VMEM it counts nothing as in use
        return None
    shared = sum(event.shares is not None for event in heap.events)
    padding = tables.slot_bytes - tables.content_bytes
    return CompilerFigure(figures, sum(gap.size for gap in found), padding, shared)
