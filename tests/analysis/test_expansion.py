"""Every time that an execution comes to an instruction: laws of passes shown one by one or together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timelines import timed
from vtpu.analysis.measured.self_times import covered, self_times
from vtpu.analysis.timeline.beside import Beside, find_beside
from vtpu.analysis.timeline.expansion import count_events, expand
from vtpu.clock.program_time import Estimate, Lane, Pass, ProgramTime, Span

MODES = [None, 64, 4, 1, 0]


def program(passes, entry=0):
    total = passes[entry].seconds
    return ProgramTime(
        total=Estimate(total, total, total),
        core_busy=total,
        exposed={},
        operations={},
        passes=passes,
        entry=entry,
        without_model=(),
        unmodelled_flops=0,
        unmodelled_bytes=0,
        flops=0,
        hbm_bytes=0,
        peak_flops_per_s=1.0,
        hbm_bytes_per_s=1.0,
        calibration="",
    )


@st.composite
def nested(draw):
    """Loops in loops: each pass is operations one after the other, the last of which may loop."""
    passes = {}
    number = 0
    below = None
    for _ in range(draw(st.integers(1, 3))):
        at, spans, inner = 0.0, [], {}
        for _ in range(draw(st.integers(1, 4))):
            length = draw(st.integers(1, 1000)) * 1e-9
            spans.append(Span(number, Lane.CORE, at, at + length))
            number, at = number + 1, at + length
        if below is not None:
            count = draw(st.integers(1, 9))
            end = at + count * passes[below].seconds
            spans.append(Span(number, Lane.CORE, at, end))
            inner[number] = (below, passes[below].seconds)
            number, at = number + 1, end
        below = len(passes)
        passes[below] = Pass(below, at, tuple(spans), inner)
    return program(passes, below)


def own_times(found):
    start = np.rint(found.start * 1e15).astype(np.int64)
    end = np.rint(found.end * 1e15).astype(np.int64)
    core = ~found.is_async
    own = self_times(start[core], end[core])
    times = {}
    for number, seconds in zip(found.instruction[core].tolist(), own.tolist(), strict=True):
        times[number] = times.get(number, 0) + seconds
    return times


@given(nested(), st.sampled_from(MODES))
def test_however_many_passes_are_shown_the_times_of_every_operation_are_the_same(time, most):
    whole, fewer = own_times(expand(time)), own_times(expand(time, most))
    assert fewer.keys() == whole.keys()
    for number, own in whole.items():
        assert fewer[number] == pytest.approx(own, abs=1e3)  # of femtoseconds


@given(nested(), st.sampled_from(MODES))
def test_however_many_passes_are_shown_they_stand_for_all(time, most):
    whole, fewer = expand(time), expand(time, most)
    for number in np.unique(whole.instruction).tolist():
        of_all = whole.passes[whole.instruction == number].sum()
        assert fewer.passes[fewer.instruction == number].sum() == pytest.approx(of_all)


@given(nested(), st.sampled_from(MODES))
def test_events_are_counted_without_being_made(time, most):
    assert count_events(time, most) == len(expand(time, most))


@given(nested(), st.sampled_from(MODES))
def test_operations_nest_and_stand_in_the_order_of_their_begin(time, most):
    found = expand(time, most)
    assert (np.diff(found.start) >= 0).all()
    start, end = np.rint(found.start * 1e12), np.rint(found.end * 1e12)
    running: list[float] = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while running and running[-1] <= begins:
            running.pop()
        assert not running or ends <= running[-1]
        running.append(ends)


def test_what_is_left_of_a_loop_is_one_pass_that_lasts_as_long():
    body = Pass(1, 2.0, (Span(5, Lane.CORE, 0.0, 1.5),))
    entry = Pass(0, 20.0, (Span(3, Lane.CORE, 0.0, 20.0),), {3: (1, 2.0)})
    found = expand(program({0: entry, 1: body}), 2)
    assert found.instruction.tolist() == [3, 5, 5, 5]
    assert found.start.tolist() == [0.0, 0.0, 2.0, 4.0]
    assert found.end.tolist() == [20.0, 1.5, 3.5, 16.0]
    assert found.passes.tolist() == [1.0, 1.0, 1.0, 8.0]


def test_what_the_core_waits_for_a_transfer_is_of_the_instruction_that_waits():
    copy = Span(1, Lane.MEMORY, 0.0, 3.0, waited=1.0)
    entry = Pass(0, 4.0, (copy, Span(2, Lane.CORE, 0.0, 2.0), Span(4, Lane.CORE, 3.0, 4.0)))
    found = expand(program({0: entry}), None, Beside(frozenset({1}), {1: 3}))
    core = found.select(~found.is_async)
    assert core.instruction.tolist() == [2, 3, 4]
    assert core.start.tolist() == [0.0, 2.0, 3.0]
    assert core.end.tolist() == [2.0, 3.0, 4.0]


def test_an_instruction_that_computes_and_then_waits_is_one_event():
    links = Span(1, Lane.LINKS, 0.0, 3.0, waited=1.0)
    entry = Pass(0, 3.0, (links, Span(2, Lane.CORE, 0.0, 2.0)))
    found = expand(program({0: entry}), None, Beside(frozenset({1}), {1: 2}))
    core = found.select(~found.is_async)
    assert (core.instruction.tolist(), core.end.tolist()) == ([2], [3.0])


def test_a_collective_that_nothing_waits_for_later_stands_on_the_core():
    entry = Pass(0, 3.0, (Span(1, Lane.LINKS, 0.0, 3.0),))
    found = expand(program({0: entry}), None, Beside())
    assert found.is_async.tolist() == [False]


def test_the_copies_of_a_real_program_are_waited_for_by_their_dones():
    module = timed().module
    beside = find_beside(module)
    assert beside.starts
    for start, done in beside.done_of.items():
        assert module.by_id[start].opcode.endswith("-start")
        assert module.by_id[done].opcode.endswith("-done")


# ---- own times ----

spans = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 50)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=12,
)


@given(spans)
def test_what_is_covered_is_every_moment_once(found):
    start = np.array([s for s, _ in found], np.int64)
    end = np.array([e for _, e in found], np.int64)
    moments = {t for s, e in found for t in range(s, e)}
    assert covered(start, end) == len(moments)


def test_an_operation_in_a_loop_is_not_the_loops_own_time():
    start, end = np.array([0, 0, 10, 40]), np.array([30, 10, 25, 50])
    assert self_times(start, end).tolist() == [5, 10, 15, 10]


def test_what_only_overlaps_is_beside():
    assert self_times(np.array([0, 5]), np.array([10, 15])).tolist() == [10, 10]
