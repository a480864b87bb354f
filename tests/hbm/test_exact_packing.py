"""Exact packings: planted optima, the compiler's own traces, never worse than an algorithm."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbm.instances import HEAP_TRACES, hard_instance, read_csv, real_trace, trace_of, traces
from vtpu.errors import UsageError
from vtpu.hbm.packing import (
    Algorithm,
    Kind,
    Trace,
    aligned_bound,
    pack,
    pack_exactly,
    peak_window,
    violations,
)

SIMPLE = [a for a in Algorithm if a is not Algorithm.FAST_MERGE_WITH_FALLBACK]
real = pytest.mark.parametrize("path", HEAP_TRACES, ids=lambda path: path.stem)


@pytest.mark.parametrize("seed", range(6))
def test_the_planted_optimum_is_reached(seed):
    instance = hard_instance(seed, pieces=14, time=60, capacity=64)
    trace = read_csv(instance.to_csv())
    exact = pack_exactly(trace)
    assert exact.is_optimal
    assert exact.packing.heap_size == exact.bound == instance.capacity
    assert violations(trace, exact.packing) == ()


@given(traces(most=16))
@settings(max_examples=40, deadline=None)
def test_an_exact_packing_is_legal_and_not_larger_than_any_other(trace):
    exact = pack_exactly(trace, effort=2)
    assert violations(trace, exact.packing) == ()
    assert exact.packing.heap_size >= exact.bound >= aligned_bound(trace).size
    assert all(exact.packing.heap_size <= pack(trace, a).heap_size for a in SIMPLE)


@real
def test_an_exact_packing_of_the_window_bounds_the_whole(path):
    trace, _ = real_trace(path)
    packed = pack(trace, Algorithm.FAST_MERGE)
    window = peak_window(trace, packed)
    exact = pack_exactly(window.trace)
    assert exact.is_optimal
    assert violations(window.trace, exact.packing) == ()
    assert aligned_bound(trace).size <= exact.bound <= packed.heap_size
    assert window.left_out == 0


def test_the_heap_of_one_real_program_could_be_at_its_bound():
    path = next(p for p in HEAP_TRACES if p.stem == "tpu7x_1x1x1_unet4")
    trace, facts = real_trace(path)
    exact = pack_exactly(trace)
    assert exact.packing.heap_size == exact.bound == aligned_bound(trace).size == 176_210_432
    assert facts["heap_size"] == 198_967_296


def test_with_no_time_the_best_algorithms_packing_stays():
    instance = hard_instance(1, pieces=120)
    trace = read_csv(instance.to_csv())
    exact = pack_exactly(trace, effort=1e-6)
    assert exact.packing.heap_size == min(pack(trace, a).heap_size for a in SIMPLE)
    assert exact.bound == instance.capacity
    assert not exact.is_optimal


def test_the_same_question_has_the_same_answer():
    trace = read_csv(hard_instance(2, pieces=40).to_csv())
    assert pack_exactly(trace, effort=1) == pack_exactly(trace, effort=1)


def test_alignment_is_obeyed_and_counted():
    trace = trace_of("A a[3] A b[4] F a A c[7] F b F c", alignment=4)
    exact = pack_exactly(trace)
    assert exact.is_optimal
    assert exact.packing.heap_size == 11


def test_a_missing_solver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    trace = read_csv(hard_instance(0, pieces=14, time=60, capacity=64).to_csv())
    with pytest.raises(UsageError, match=r"pip install 'vtpu\[exact\]'"):
        pack_exactly(trace)


def test_the_solver_is_loaded_only_when_asked():
    import subprocess

    code = "import sys, vtpu.hbm.packing; print('ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# The window


def test_a_window_is_where_the_heap_reaches_above_its_bound():
    trace = trace_of("A z[1] F z A a[4] A b[4] F a A c[8] F b F c A z2[1]")
    window = peak_window(trace, pack(trace, Algorithm.FAST_MERGE))
    assert (window.first, window.last, window.left_out) == (5, 7, 0)
    assert [(e.kind, e.buffer) for e in window.trace.events] == [
        (Kind.ALLOCATE, 2), (Kind.ALLOCATE, 3), (Kind.FREE, 2), (Kind.FREE, 3),
    ]  # fmt: skip


def test_a_window_keeps_the_largest_of_what_passes():
    trace = trace_of("A w[9] A a[4] A b[4] A d[2] F a A c[8] F b F c F w")
    packed = pack(trace, Algorithm.FAST_MERGE)
    everything, window = peak_window(trace, packed), peak_window(trace, packed, at_most=0)
    assert (everything.left_out, window.left_out) == (0, 1)
    assert {e.buffer for e in window.trace.events} == {0, 3, 4}


@given(traces(most=16), st.sampled_from(SIMPLE))
@settings(max_examples=40, deadline=None)
def test_the_smallest_window_is_no_larger_than_the_smallest_whole(trace, algorithm):
    window = peak_window(trace, pack(trace, algorithm))
    assert pack_exactly(window.trace).bound <= pack_exactly(trace).packing.heap_size


@given(traces(), st.sampled_from(SIMPLE))
def test_a_window_has_the_bound_of_the_whole(trace, algorithm):
    packed = pack(trace, algorithm)
    window = peak_window(trace, packed)
    assert aligned_bound(window.trace).size == aligned_bound(trace).size
    assert window.left_out == 0


def test_nothing_has_an_empty_window():
    window = peak_window(Trace(()), pack(Trace(())))
    assert (window.first, window.last, window.trace.events) == (None, None, ())
