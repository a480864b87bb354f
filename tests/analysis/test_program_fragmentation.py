"""Fragmentation inside a program: parts that sum up, algorithms found by replay, gaps, suggestions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbm.instances import HEAP_TRACES, real_trace, traces
from memories import TABLE_BYTES, Step, heap_of
from vtpu.analysis.program.fragmentation import (
    HeapFragmentation,
    PackedHeap,
    analyse_fragmentation,
)
from vtpu.analysis.program.heap_replay import pack_with_all
from vtpu.analysis.program.memory import analyse_memory
from vtpu.hbm.packing import Algorithm, Event, Kind, Trace, pack
from vtpu.program.memory import HeapTrace, ProgramMemory
from vtpu.units import GIB, KIB, MIB

SLOT = 16 * KIB
UNET = next(p for p in HEAP_TRACES if p.stem == "tpu7x_1x1x1_unet4")
REAL = [pytest.param(path, id=path.stem) for path in HEAP_TRACES]
OPS = {Kind.ALLOCATE: "A", Kind.SHARE: "S", Kind.FREE: "F"}
SIMPLE = [a for a in Algorithm if a is not Algorithm.FAST_MERGE_WITH_FALLBACK]


def steps_of(trace: Trace) -> list[Step]:
    return [step_of(event) for event in trace.events]


def step_of(event: Event) -> Step:
    return Step(OPS[event.kind], event.buffer, event.size, event.shares)


def fragmentation_of(memory: ProgramMemory, *, exact: bool = False) -> HeapFragmentation:
    (heap,) = analyse_fragmentation(memory, analyse_memory(memory), exact=exact)
    return heap


def packed(heap: HeapFragmentation) -> PackedHeap:
    assert heap.packed, heap.problem
    return heap.packed


def memory_of_trace(path: Path, *, tables: int = 0, log: str = "") -> ProgramMemory:
    trace, facts = real_trace(path)
    offsets = {int(b): offset for b, offset in facts["expected_offset"].items()}
    return heap_of(steps_of(trace), offsets, tables=tables, log=log)


@pytest.mark.parametrize("path", REAL)
def test_the_compilers_algorithm_and_alignment_are_found_by_replay(path: Path) -> None:
    _, facts = real_trace(path)
    heap = fragmentation_of(memory_of_trace(path, tables=3))
    assert heap.replays
    assert Algorithm.FAST_MERGE in heap.replays.exact
    assert heap.replays.alignment == facts["alignment"]
    assert heap.packed_bytes == facts["heap_size"]
    assert packed(heap).live_bytes == facts["lower_bound"]
    # that one aligns all ends, also the heap's
    assert facts["lower_bound"] <= packed(heap).aligned_bytes <= facts["lower_bound_aligned"]
    assert (heap.tables.count, heap.tables.slot_bytes) == (3, 3 * SLOT)


@pytest.mark.parametrize("path", REAL)
@pytest.mark.parametrize("limit", [0, 16 * GIB])
def test_packing_with_all_at_once_is_packing_with_each(path: Path, limit: int) -> None:
    trace, _ = real_trace(path)
    assert pack_with_all(trace, limit) == {a: pack(trace, a, limit) for a in Algorithm}


@given(traces(most=25), st.sampled_from(SIMPLE), st.integers(0, 3))
def test_what_is_alive_the_gaps_tables_and_joints_are_the_allocation(
    trace: Trace, algorithm: Algorithm, tables: int
) -> None:
    if not any(event.size for event in trace.events):
        return
    packing = pack(trace, algorithm)
    memory = heap_of(steps_of(trace), packing.offsets, tables=tables, alignment=64)
    heap = fragmentation_of(memory)
    inside = packed(heap)
    assert heap.packed_bytes == packing.heap_size
    assert inside.gap_bytes == heap.packed_bytes - inside.live_bytes
    parts = inside.live_bytes, inside.gap_bytes, heap.tables.slot_bytes, heap.other_bytes
    assert sum(parts) == heap.allocation_bytes
    assert min(parts) >= 0
    assert heap.replays
    assert heap.replays.exact
    assert heap.replays.nearest.agreeing == heap.replays.compared


@given(traces(most=25), st.sampled_from(SIMPLE))
def test_gaps_lie_between_what_is_alive(trace: Trace, algorithm: Algorithm) -> None:
    if not any(event.size for event in trace.events):
        return
    memory = heap_of(steps_of(trace), pack(trace, algorithm).offsets)
    heap = fragmentation_of(memory)
    places = {p.buffer: p for a in memory.assignment.allocations for p in a.placed}
    end = 0
    for gap in packed(heap).gaps:
        assert end <= gap.offset
        end = gap.offset + gap.size
        assert (gap.below is None) == (gap.offset == 0)
        assert (gap.above is None) == (end == heap.allocation_bytes)
        if gap.above:
            assert end in {places[b].offset for b in gap.above.occupant.buffers}


FIRST = [
    Step("A", 0, 4 * SLOT), Step("A", 1, 4 * SLOT), Step("F", 0), Step("A", 2, 8 * SLOT),
    Step("F", 1), Step("F", 2),
]  # fmt: skip
MERGED = {0: 0, 1: 4 * SLOT, 2: 8 * SLOT}


def test_a_smaller_packing_is_named_with_the_option_that_asks_for_it() -> None:
    heap = fragmentation_of(heap_of(FIRST, MERGED))
    inside = packed(heap)
    assert inside.suggestion
    assert inside.suggestion.algorithm is Algorithm.SPATIAL
    assert inside.suggestion.saved_bytes == 4 * SLOT
    (gap,) = inside.gaps
    assert (gap.offset, gap.size, gap.is_alignment) == (0, 4 * SLOT, False)
    assert gap.below is None
    assert gap.above
    assert gap.above.name == "op.1"


def test_a_real_heap_gets_a_suggestion_where_the_gain_is_over_one_percent() -> None:
    unet = packed(fragmentation_of(memory_of_trace(UNET)))
    assert unet.suggestion
    assert unet.suggestion.algorithm is Algorithm.SPATIAL
    assert unet.suggestion.heap_bytes == 184467968
    v5e = next(p for p in HEAP_TRACES if p.stem.startswith("v5e"))
    assert packed(fragmentation_of(memory_of_trace(v5e))).suggestion is None


def test_an_unknown_packing_says_how_many_buffers_agree_and_suggests_nothing() -> None:
    heap = fragmentation_of(heap_of(FIRST, {0: 16 * SLOT, 1: 4 * SLOT, 2: 8 * SLOT}))
    assert heap.replays
    assert heap.replays.exact == ()
    assert 0 < heap.replays.nearest.agreeing < heap.replays.compared == 3
    assert packed(heap).suggestion is None


def test_a_heap_whose_trace_has_two_buffers_alive_in_one_place_shows_no_bound() -> None:
    heap = fragmentation_of(heap_of(FIRST, {0: 0, 1: 0, 2: 8 * SLOT}))
    assert heap.packed is None
    assert heap.problem
    assert "at the same time" in heap.problem


def test_a_trace_that_contradicts_itself_is_a_problem_of_that_heap() -> None:
    heap = fragmentation_of(heap_of([*FIRST, Step("F", 2)], MERGED))
    assert heap.replays is None
    assert heap.problem == "heap trace, event 6: buffer 2 is freed but not alive"


def test_a_buffer_of_a_trace_that_is_not_placed_is_a_problem() -> None:
    memory = heap_of(FIRST, MERGED)
    (trace,) = memory.assignment.traces
    stranger = replace(trace.events[0], buffer=77)
    traces = (HeapTrace(99, (*trace.events, stranger)),)
    changed = replace(memory, assignment=replace(memory.assignment, traces=traces))
    assert fragmentation_of(changed).problem == "1 buffers of its trace are not placed in it"


def test_the_compilers_figure_is_gaps_slots_of_tables_and_a_rest() -> None:
    log = (
        "Program hbm requirement 1M:\n    HLO temp 1M (9% utilization: Unpadded (1M) Padded (1M), "
        "9.9% fragmentation (1M))\n"
    )
    figure = packed(fragmentation_of(heap_of(FIRST, MERGED, tables=2, log=log))).compiler_figure
    assert figure
    assert figure.gap_bytes == 4 * SLOT
    assert figure.slot_padding_bytes == 2 * (SLOT - TABLE_BYTES)
    assert figure.shared_buffers == 0
    assert figure.unexplained_bytes == MIB - 4 * SLOT - 2 * (SLOT - TABLE_BYTES)


def test_an_exact_packing_of_the_peak_is_proven_by_the_checker() -> None:
    inside = packed(fragmentation_of(heap_of(FIRST, MERGED), exact=True))
    assert inside.exact
    assert inside.exact.heap_bytes == inside.exact.bound_bytes == inside.live_bytes
    assert inside.exact.is_optimal
    assert inside.exact.violations == ()


def test_the_exact_packing_is_made_on_request_alone() -> None:
    assert packed(fragmentation_of(heap_of(FIRST, MERGED))).exact is None
