"""The packers: the TPU compiler's own offsets, worked examples, and laws."""

import ast
import inspect
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbm.instances import HEAP_TRACES, hard_instance, read_csv, real_trace, trace_of, traces
from vtpu.hbm.packing import (
    Algorithm,
    Event,
    Kind,
    Packing,
    Trace,
    aligned_bound,
    block_bound,
    checker,
    detect,
    gaps,
    intervals,
    live_bound,
    live_bytes,
    pack,
    tops,
    violations,
    which_algorithms,
)
from vtpu.hbm.packing.algorithms import FALLBACK_MARGIN_BYTES
from vtpu.units import GIB

SIMPLE = [a for a in Algorithm if a is not Algorithm.FAST_MERGE_WITH_FALLBACK]
MODELS = {
    "spatial": Algorithm.SPATIAL,
    "temporal": Algorithm.TEMPORAL,
    "fast_merge": Algorithm.FAST_MERGE,
}
real = pytest.mark.parametrize("path", HEAP_TRACES, ids=lambda path: path.stem)
simple = pytest.mark.parametrize("algorithm", SIMPLE)

FIRST = "A a[4] A b[4] F a A c[8] F b F c"
SECOND = "A p[10] A x[4] S q=p F p F x F q"
THIRD = "A g[8] F g A t[8] F t S h=g F h"


# What the TPU compiler did


@real
def test_the_compilers_offsets_are_those_of_the_algorithms_named(path):
    trace, facts = real_trace(path)
    offsets = {int(b): offset for b, offset in facts["expected_offset"].items()}
    named = {MODELS[name] for name in facts["algorithm_matched"]}
    assert {a for a in which_algorithms(trace, offsets) if a in MODELS.values()} == named
    assert pack(trace, Algorithm.FAST_MERGE) == Packing(offsets, facts["heap_size"])


@real
def test_heaps_and_bounds_are_those_measured(path):
    trace, facts = real_trace(path)
    assert {n: pack(trace, a).heap_size for n, a in MODELS.items()} == facts["models"]
    assert live_bound(trace).size == facts["lower_bound"]


@real
def test_packings_of_real_traces_are_legal(path):
    trace, _ = real_trace(path)
    for algorithm in SIMPLE:
        assert violations(trace, pack(trace, algorithm)) == ()


def test_a_near_miss_says_how_many_buffers_agree():
    trace, facts = real_trace(HEAP_TRACES[0])
    offsets = {int(b): offset for b, offset in facts["expected_offset"].items()}
    moved = next(iter(offsets))
    found = detect(trace, offsets | {moved: offsets[moved] + 1})
    assert found.exact == ()
    assert found.nearest is Algorithm.FAST_MERGE
    assert (found.agreeing, found.compared) == (len(offsets) - 1, len(offsets))


# Worked examples


@pytest.mark.parametrize(
    ("text", "bound", "spatial", "fast_merge"),
    [
        (FIRST, 12, (12, [0, 8, 0]), (16, [0, 4, 8])),
        (SECOND, 14, (14, [0, 10, 0]), (14, [0, 10, 0])),
        (THIRD, 8, (8, [0, 0, 0]), (16, [0, 8, 0])),
    ],
)
def test_small_traces_pack_as_worked_out_by_hand(text, bound, spatial, fast_merge):
    trace = trace_of(text)
    assert live_bound(trace).size == bound
    for algorithm, (heap, offsets) in (
        (Algorithm.SPATIAL, spatial),
        (Algorithm.FAST_MERGE, fast_merge),
    ):
        assert pack(trace, algorithm) == Packing(dict(enumerate(offsets)), heap)


def test_the_names_are_those_of_the_compiler_option():
    assert Algorithm["DEFAULT"] is Algorithm.BEST_OF_SPATIAL_TEMPORAL
    assert set(Algorithm.__members__) == {
        "DEFAULT", "BEST_OF_SPATIAL_TEMPORAL", "SPATIAL", "TEMPORAL", "FAST_MERGE", "FAST_SPLIT",
        "FAST_MERGE_WITH_FALLBACK",
    }  # fmt: skip


def test_fast_merge_falls_back_when_it_comes_near_the_limit():
    events = trace_of(FIRST).events
    large = Trace(tuple(replace(e, size=e.size * GIB) for e in events))
    merged, default = pack(large, Algorithm.FAST_MERGE), pack(large)
    assert (merged.heap_size, default.heap_size) == (16 * GIB, 12 * GIB)
    fits = merged.heap_size + FALLBACK_MARGIN_BYTES
    assert pack(large, Algorithm.FAST_MERGE_WITH_FALLBACK, limit=fits) == merged
    assert pack(large, Algorithm.FAST_MERGE_WITH_FALLBACK, limit=fits - 1) == default


def test_the_fallback_needs_a_limit():
    with pytest.raises(ValueError, match="pass limit"):
        pack(trace_of(FIRST), Algorithm.FAST_MERGE_WITH_FALLBACK)


def test_fast_split_puts_what_is_small_above_the_large():
    events = [Event.allocate(i, 1000 - i) for i in range(502)]
    trace = Trace((*events, *(Event.free(e.buffer) for e in events)))
    offsets = pack(trace, Algorithm.FAST_SPLIT).offsets
    assert offsets[500] == sum(e.size for e in events[:500])
    assert offsets[501] == offsets[500] + events[500].size


def test_a_buffer_that_is_never_freed_lives_to_the_last_tick():
    trace = trace_of("A a[1] A b[1] F b")
    assert [(i.start, i.end) for i in intervals(trace)] == [(0, 2), (1, 2)]


def test_sharing_through_another_is_sharing_with_the_owner():
    trace = trace_of("A a[8] F a S b=a F b S c=b F c")
    assert {i.group for i in intervals(trace)} == {0}
    assert set(pack(trace).offsets.values()) == {0}


@simple
def test_a_trace_without_events_needs_no_heap(algorithm):
    assert pack(Trace(()), algorithm) == Packing({}, 0)
    assert live_bound(Trace(())).tick is None


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Event.free(1)], "event 0: buffer 1 is freed but not alive"),
        ([Event.allocate(1, 4), Event.allocate(1, 4)], "event 1: .* a second time"),
        ([Event.allocate(1, -4)], "size of -4"),
        ([Event.share(2, 4, 1)], "shares with buffer 1, which was never allocated"),
    ],
)
def test_events_that_contradict_each_other_are_refused(events, message):
    with pytest.raises(ValueError, match=message):
        Trace(tuple(events))


# Laws


@simple
@given(traces())
def test_every_packing_is_legal(algorithm, trace):
    assert violations(trace, pack(trace, algorithm)) == ()


@simple
@given(traces())
def test_no_heap_is_smaller_than_its_bound(algorithm, trace):
    assert pack(trace, algorithm).heap_size >= aligned_bound(trace).size >= live_bound(trace).size


@given(traces())
def test_fast_merge_keeps_a_group_as_one_block(trace):
    heap = pack(trace, Algorithm.FAST_MERGE).heap_size
    assert heap >= block_bound(trace).size >= live_bound(trace).size


@given(traces())
def test_the_default_is_the_better_of_two(trace):
    both = [pack(trace, a).heap_size for a in (Algorithm.SPATIAL, Algorithm.TEMPORAL)]
    assert pack(trace).heap_size == min(both)


@simple
@given(traces(), st.integers(2, 9))
def test_sizes_scaled_with_the_alignment_scale_the_packing(algorithm, trace, factor):
    scaled = Trace(
        tuple(replace(e, size=e.size * factor) for e in trace.events), trace.alignment * factor
    )
    plain = pack(trace, algorithm)
    assert pack(scaled, algorithm) == Packing(
        {b: offset * factor for b, offset in plain.offsets.items()}, plain.heap_size * factor
    )


def renamed(trace, names):
    def new(buffer):
        return None if buffer is None else names[buffer]

    events = (replace(e, buffer=new(e.buffer), shares=new(e.shares)) for e in trace.events)
    return replace(trace, events=tuple(events))


@simple
@given(traces())
def test_names_in_the_same_order_change_nothing(algorithm, trace):
    names = {e.buffer: 7 * e.buffer + 100 for e in trace.events}
    plain = pack(trace, algorithm)
    moved = {names[b]: offset for b, offset in plain.offsets.items()}
    assert pack(renamed(trace, names), algorithm) == Packing(moved, plain.heap_size)


@given(traces(), st.randoms())
def test_fast_merge_does_not_look_at_names(trace, rng):
    buffers = sorted({e.buffer for e in trace.events})
    names = dict(zip(buffers, rng.sample(range(1000), len(buffers)), strict=True))
    plain = pack(trace, Algorithm.FAST_MERGE)
    moved = {names[b]: offset for b, offset in plain.offsets.items()}
    assert pack(renamed(trace, names), Algorithm.FAST_MERGE).offsets == moved


def frees_swapped(trace):
    """Neighbouring frees in the other order, which says the same."""
    events = list(trace.events)
    for i in range(0, len(events) - 1, 2):
        if events[i].kind is events[i + 1].kind is Kind.FREE:
            events[i], events[i + 1] = events[i + 1], events[i]
    return replace(trace, events=tuple(events))


@given(traces())
def test_the_order_of_neighbouring_frees_means_nothing_to_fast_merge_and_bounds(trace):
    other = frees_swapped(trace)
    assert pack(other, Algorithm.FAST_MERGE) == pack(trace, Algorithm.FAST_MERGE)
    assert aligned_bound(other).size == aligned_bound(trace).size


@given(traces())
def test_a_free_before_the_allocation_beside_it_never_needs_more(trace):
    events = list(trace.events)
    for i in range(len(events) - 1):
        allocation, free = events[i], events[i + 1]
        if (
            allocation.kind is Kind.ALLOCATE
            and free.kind is Kind.FREE
            and allocation.buffer != free.buffer
        ):
            events[i], events[i + 1] = free, allocation
    assert live_bound(replace(trace, events=tuple(events))).size <= live_bound(trace).size


@given(traces(most=20))
def test_what_is_not_reproduced_exactly_is_not_named(trace):
    for algorithm in SIMPLE:
        offsets = pack(trace, algorithm).offsets
        named = which_algorithms(trace, offsets, limit=100 * GIB)
        assert algorithm in named
        assert all(pack(trace, a, limit=100 * GIB).offsets == offsets for a in named)


@simple
@given(traces(alignments=st.just(4)))
def test_gaps_and_live_blocks_sum_up_to_the_heap(algorithm, trace):
    result = pack(trace, algorithm)
    live = live_bytes(trace)
    for tick, top in enumerate(tops(trace, result)):
        sizes: dict[int, int] = {}
        for i in intervals(trace):
            sizes[i.group] = max(sizes.get(i.group, 0), i.size)
        alive = {i.group for i in intervals(trace) if i.start <= tick <= i.end}
        free = gaps(trace, result, tick)
        assert sum(g.size for g in free) + sum(sizes[g] for g in alive) == result.heap_size
        assert live[tick] == sum(sizes[g] for g in alive)
        assert top == max((result.offsets[g] + sizes[g] for g in alive), default=0)


# The checker


@pytest.mark.parametrize(
    ("offsets", "heap", "what"),
    [
        ({0: 0, 1: 4}, 12, "has no offset"),
        ({0: 0, 1: 4, 2: -8}, 12, "negative address -8"),
        ({0: 0, 1: 4, 2: 8}, 15, "ends at 16, above the heap's 15 bytes"),
        ({0: 0, 1: 2, 2: 8}, 16, "overlaps buffer 0"),
        ({0: 0, 1: 4, 2: 2}, 16, "overlaps buffer 1"),
    ],
)
def test_the_checker_says_what_is_wrong(offsets, heap, what):
    found = violations(trace_of(FIRST), Packing(offsets, heap))
    assert any(what in v.what for v in found)


def test_the_checker_wants_aligned_starts_but_no_aligned_end():
    trace = trace_of("A a[3] A b[3]", alignment=4)
    assert violations(trace, Packing({0: 0, 1: 4}, 7)) == ()
    (found,) = violations(trace, Packing({0: 0, 1: 3}, 7))
    assert "no multiple of 4" in found.what


def test_buffers_that_share_lie_at_one_address():
    (found,) = violations(trace_of("A a[4] S b=a"), Packing({0: 0, 1: 4}, 8))
    assert "whose memory it shares" in found.what


def test_a_block_is_as_large_as_its_largest_sharer():
    trace = Trace((Event.allocate(0, 2), Event.allocate(1, 4), Event.share(2, 8, 0)))
    assert violations(trace, Packing({0: 0, 1: 2, 2: 0}, 8))
    assert violations(trace, Packing({0: 0, 1: 8, 2: 0}, 12)) == ()


@simple
@given(traces(sizes=st.integers(1, 40)), st.data())
def test_the_checker_agrees_with_a_look_at_all_pairs(algorithm, trace, data):
    result = pack(trace, algorithm)
    if not result.offsets:
        return
    owners = sorted({i.group for i in intervals(trace)})
    moved = data.draw(st.sampled_from(owners))
    to = data.draw(st.integers(0, 5)) * trace.alignment
    offsets = {
        i.buffer: to if i.group == moved else result.offsets[i.buffer] for i in intervals(trace)
    }
    sizes = {g: max(i.size for i in intervals(trace) if i.group == g) for g in owners}
    overlaps = any(
        a.group != b.group
        and a.start <= b.end
        and b.start <= a.end
        and offsets[a.group] < offsets[b.group] + sizes[b.group]
        and offsets[b.group] < offsets[a.group] + sizes[a.group]
        for a in intervals(trace)
        for b in intervals(trace)
    )
    assert bool(violations(trace, Packing(offsets, 10**6))) == overlaps


def test_the_checker_shares_no_code_with_the_packers():
    tree = ast.parse(inspect.getsource(checker))
    imported = {
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if node.module.startswith("vtpu")
    }
    values = ("Event", "Kind", "Packing", "Trace")
    assert imported == {("vtpu.hbm.packing.problem", name) for name in values}
    plain = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    assert not {name for name in plain if name.startswith("vtpu")}


# Hard instances


@pytest.mark.parametrize("seed", range(5))
def test_hard_instances_are_packed_legally_and_no_better_than_planted(seed):
    instance = hard_instance(seed, pieces=200)
    trace = read_csv(instance.to_csv())
    assert violations(trace, instance.planted) == ()
    assert live_bound(trace).size == instance.capacity
    for algorithm in SIMPLE:
        result = pack(trace, algorithm)
        assert violations(trace, result) == ()
        assert result.heap_size >= instance.capacity
