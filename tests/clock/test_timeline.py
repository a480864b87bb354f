"""Devices and links on the virtual clock: what begins when, and the laws of every lane."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.clock.host_links import LinkLane
from vtpu.clock.timeline import MOST_IN_FLIGHT, Timeline

times = st.integers(0, 1000)
lengths = st.integers(0, 100)
asked = st.lists(st.tuples(times, lengths), max_size=40)
executions = st.lists(st.tuples(times, lengths, st.sampled_from([(0,), (1,), (0, 1)])), max_size=40)


def apart(spans):
    """Whether spans lie one behind the other."""
    return all(a[1] <= b[0] for a, b in pairwise(sorted(s for s in spans if s[0] < s[1])))


@given(asked)
def test_a_link_carries_one_transfer_at_a_time(transfers):
    lane = LinkLane()
    spans = []
    for at, length in transfers:
        begin = lane.carry(at, length)
        assert begin >= at
        spans.append((begin, begin + length))
    assert apart(spans)


@given(asked)
def test_a_link_is_not_idle_while_a_transfer_that_fits_waits(transfers):
    lane = LinkLane()
    spans = []
    for at, length in transfers:
        begin = lane.carry(at, length)
        for gap in gaps(spans, begin):
            assert min(gap[1], begin) - max(gap[0], at) < max(length, 1)
        spans.append((begin, begin + length))


def gaps(spans, until):
    """The free stretches before a time."""
    end = 0
    for span in sorted(s for s in spans if s[0] < s[1]):
        if span[0] >= until:
            break
        yield end, span[0]
        end = span[1]
    if end < until:
        yield end, until


@given(asked)
def test_transfers_asked_for_in_order_are_carried_in_order(transfers):
    lane = LinkLane()
    begins = [lane.carry(at, max(1, length)) for at, length in sorted(transfers)]
    assert begins == sorted(begins)


@given(executions)
def test_a_device_runs_one_execution_at_a_time_in_the_order_of_dispatch(calls):
    timeline = Timeline([0, 1])
    by_device = {0: [], 1: []}
    for number, (at, length, devices) in enumerate(calls, 1):
        span = timeline.execute(at, number, devices, length)
        assert span.begin_ns >= at
        assert timeline.done(number, 0) == span.end_ns
        for device in devices:
            by_device[device].append(span)
    for spans in by_device.values():
        assert apart(spans)
        assert spans == sorted(spans)


@given(executions)
def test_an_execution_begins_as_soon_as_it_can(calls):
    timeline = Timeline([0, 1])
    free = {0: 0, 1: 0}
    for number, (at, length, devices) in enumerate(calls, 1):
        span = timeline.execute(at, number, devices, length)
        assert span.begin_ns == max([at, *(free[d] for d in devices)])
        free.update(dict.fromkeys(devices, span.end_ns))


def test_an_execution_waits_for_its_input_and_not_for_other_transfers():
    timeline = Timeline([0], bytes_per_s=1e9)  # one byte each nanosecond
    timeline.send(0, 1, 0, 100)
    timeline.send(0, 2, 0, 1000)
    assert timeline.execute(0, 1, (0,), 50, awaits=1) == (100, 150)
    assert timeline.execute(0, 2, (0,), 50, awaits=2) == (1100, 1150)


def test_both_directions_of_a_link_are_used_at_once_and_chips_have_links_of_their_own():
    timeline = Timeline([0, 1, 2], {0: 0, 1: 0, 2: 1}, bytes_per_s=1e9)
    assert timeline.send(0, 1, 0, 100) == (0, 100)
    assert timeline.fetch(0, 0, 100) == (0, 100)
    assert timeline.send(0, 2, 1, 100) == (100, 200)  # the same chip
    assert timeline.send(0, 3, 2, 100) == (0, 100)


def test_bytes_over_a_link_of_unknown_rate_are_counted_and_take_no_time():
    timeline = Timeline([0])
    assert timeline.send(5, 1, 0, 100) == (5, 5)
    assert timeline.fetch(7, 0, 1) == (7, 7)
    assert timeline.untimed_bytes == 101


def test_the_host_is_only_so_far_ahead_of_a_device():
    timeline = Timeline([0])
    for number in range(1, MOST_IN_FLIGHT + 1):
        assert timeline.room(0, (0,)) == 0
        timeline.execute(0, number, (0,), 10)
    assert timeline.room(0, (0,)) == 10  # when the first is done
    timeline.execute(10, MOST_IN_FLIGHT + 1, (0,), 10)
    assert timeline.room(10, (0,)) == 20
    assert timeline.room(15, (0,)) == 20
    assert timeline.room(25, (0,)) == 25


@pytest.mark.parametrize(("execution", "transfer"), [(0, 0), (7, 0), (0, 7)])
def test_what_was_before_the_recording_is_done(execution, transfer):
    assert Timeline([0]).done(execution, transfer) == 0
