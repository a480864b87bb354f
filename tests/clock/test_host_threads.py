"""The host's threads on the virtual clock: working, being blocked, being late and catching up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.clock.host_threads import HostThreads

MS = 1_000_000
stretches = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 200)), max_size=30
)  # blocked, working, then waiting for the device so long


def replay(calls, speed=1.0):
    """The end of each stretch of one thread, and of its wait."""
    threads = HostThreads(speed)
    threads.go_on(1, 0, 0)
    clock = cpu = 0
    ends = []
    for blocked, works, waits in calls:
        clock, cpu = clock + blocked + works, cpu + works
        end = threads.go_on(1, clock * MS, cpu * MS).ends_ns
        ends += [end, end + waits * MS]
        threads.wait(1, end + waits * MS)
    return ends


@given(stretches)
def test_time_never_runs_backwards(calls):
    ends = replay(calls)
    assert ends == sorted(ends)


@given(stretches)
def test_a_host_that_takes_no_time_waits_for_the_device_only(calls):
    ends = replay(calls, math.inf)
    assert ends[-1:] == [sum(waits for *_, waits in calls) * MS][: len(ends)]


@given(stretches)
def test_a_thread_that_never_waits_for_the_device_takes_as_long_as_it_did(calls):
    ends = replay([(blocked, works, 0) for blocked, works, _ in calls])
    assert ends[-1:] == [sum(b + w for b, w, _ in calls) * MS][: len(ends)]


@given(stretches, st.floats(1, 8))
def test_a_faster_host_is_never_later(calls, speed):
    slow, fast = replay(calls), replay(calls, speed)
    assert all(f <= s + 1 for f, s in zip(fast, slow, strict=True))


@given(stretches)
def test_a_stretch_is_whole(calls):
    threads = HostThreads(2.0)
    clock = cpu = 0
    for blocked, works, waits in calls:
        clock, cpu = clock + blocked + works, cpu + works
        stretch = threads.go_on(1, clock * MS, cpu * MS)
        assert stretch.begins_ns <= stretch.works_ns <= stretch.ends_ns
        threads.wait(1, stretch.ends_ns + waits * MS)


def test_who_is_late_does_not_wait_for_what_is_there_already():
    # 50 ms for a batch each, made by another thread meanwhile, and 100 ms for the device
    assert replay([(50, 0, 100)] * 3) == [t * MS for t in (50, 150, 150, 250, 250, 350)]
    # a batch takes longer than the device
    assert replay([(150, 0, 100)] * 3) == [t * MS for t in (150, 250, 300, 400, 450, 550)]


def test_the_speed_of_the_host_counts_for_work_and_not_for_being_blocked():
    assert replay([(10, 10, 0)] * 3, speed=2)[-1] == 45 * MS
    assert replay([(10, 10, 0)] * 3, speed=0.5)[-1] == 90 * MS


@pytest.mark.parametrize("cpu", [-5, 0])
def test_a_clock_that_was_not_read_is_no_work(cpu):
    threads = HostThreads()
    threads.go_on(1, 0, 0)
    assert threads.go_on(1, 10, cpu) == (0, 10, 10)
