"""What a run does step after step: reads, arrays that are sent again, stalls, and what a step would be without."""

from __future__ import annotations

import numpy as np
import pytest

from host_calls import HostCalls, crossing, lasting
from vtpu.analysis.run.host_time import host_seconds, host_seconds_after
from vtpu.analysis.run.loop import Loop, loop_of, repeated
from vtpu.analysis.run.reads import waiting_reads
from vtpu.analysis.run.sent_again import sent_again
from vtpu.analysis.run.stalls import find_stalls
from vtpu.analysis.run.step_if import step_if, without, without_bytes
from vtpu.analysis.run.step_time import find_steps
from vtpu.analysis.run.virtual_clock import run_on_clock
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording
from vtpu.units import MIB


def loop(recorded: Recording) -> Loop:
    run = run_on_clock(recorded, lasting(step=100))
    return loop_of(recorded, find_steps(recorded, run, 1))


def step_s(recorded: Recording, events: np.ndarray) -> float:
    return step_if(recorded, events, 1, lasting(step=100))


def test_a_step_goes_from_one_dispatch_to_the_next() -> None:
    recorded = (
        HostCalls().send().execute().read().send().execute().read().execute().read().recorded()
    )
    assert loop(recorded).steps_of(np.arange(8)).tolist() == [-1, 0, 0, 0, 1, 1, -1, -1]


def test_a_line_is_told_with_the_steps_in_which_it_does_something() -> None:
    host = HostCalls()
    for number in range(6):
        host.execute()
        if number % 2:
            host.call(EventKind.DEVICE_TO_HOST, bytes=10, stack=2)
    recorded = host.recorded()

    (line,) = repeated(recorded, LineFinder(recorded), loop(recorded), waiting_reads(recorded))
    assert (line.steps, line.of_steps, line.in_loop, len(line.events)) == (2, 5, 2, 3)
    assert (line.line.line, line.bytes, line.per_step) == (3, 20, 0.4)


def test_without_its_reads_a_step_is_as_long_as_the_device_takes() -> None:
    host = HostCalls()
    for _ in range(10):
        host.works(50).execute().read(4)
    recorded = host.recorded()

    assert step_s(recorded, recorded.events) == pytest.approx(0.150)
    assert step_s(recorded, without(recorded.events, waiting_reads(recorded))) == pytest.approx(0.1)


def test_without_bytes_a_transfer_takes_no_time() -> None:
    host = HostCalls()
    for number in range(1, 11):
        host.send(crossing(250)).execute(awaits=number)
    recorded = host.recorded()
    sent = np.flatnonzero(recorded.events["kind"] == EventKind.HOST_TO_DEVICE)

    assert step_s(recorded, recorded.events) == pytest.approx(0.250)
    assert step_s(recorded, without_bytes(recorded.events, sent)) == pytest.approx(0.1)


def sends(*contents: int, size: int = 4096, fields: dict[str, int] | None = None) -> Recording:
    """Steps that each send one array, with these fingerprints."""
    host = HostCalls()
    for content in contents:
        host.call(EventKind.HOST_TO_DEVICE, bytes=size, address=content, **(fields or {})).execute()
    return host.recorded()


def again(recorded: Recording) -> int:
    return len(sent_again(recorded, loop(recorded), smallest=1024))


def test_the_same_contents_in_most_steps_are_sent_again() -> None:
    assert again(sends(7, 7, 7, 7, 7, 7)) == 6
    assert again(sends(1, 7, 7, 7, 7, 2)) == 4


def test_fresh_batches_are_not_sent_again() -> None:
    assert again(sends(1, 2, 3, 4, 5, 6)) == 0


def test_batches_that_come_again_in_each_epoch_are_not_either() -> None:
    assert again(sends(*(range(4)), *range(4), *range(4))) == 0


def test_numbers_and_contents_without_a_fingerprint_are_left_out() -> None:
    assert again(sends(7, 7, 7, 7, 7, 7, size=4)) == 0
    assert again(sends(-1, -1, -1, -1, -1, -1)) == 0


def test_two_devices_that_get_the_same_are_no_repetition() -> None:
    host = HostCalls()
    for content in range(1, 7):
        for device in (0, 1):
            host.call(EventKind.HOST_TO_DEVICE, bytes=4096, address=content, device=device)
        host.execute()
    assert again(host.recorded()) == 0


def stalls(every: int, size: int):
    """Twelve steps; in some the host reads `size` bytes and works on them for a second."""
    host = HostCalls()
    for number in range(12):
        host.execute()
        if number % every == every - 1:
            host.read(size).works(1000)
    recorded = host.recorded()
    run = run_on_clock(recorded, lasting(step=100))
    steps = find_steps(recorded, run, 1)
    reads = waiting_reads(recorded)
    return find_stalls(recorded, run, steps, loop_of(recorded, steps), reads)


def test_a_step_with_a_large_read_is_a_stall() -> None:
    found = stalls(every=6, size=64 * MIB)
    assert found is not None
    assert (found.steps.tolist(), found.bytes, len(found.reads)) == ([5], 64 * MIB, 1)
    assert found.median_s == pytest.approx(0.1)
    assert found.lost_s == pytest.approx(1.0, rel=0.02)


def test_small_reads_and_reads_of_every_step_are_no_stalls() -> None:
    assert stalls(every=6, size=4) is None
    assert stalls(every=1, size=64 * MIB) is None


def test_the_host_is_told_apart_before_and_after_a_call() -> None:
    recorded = HostCalls().execute().works(3).read().works(5).blocked(7).execute().recorded()
    read = np.array([1])
    assert host_seconds(recorded, read)[0] == pytest.approx(0.003)
    assert host_seconds_after(recorded, read)[0] == pytest.approx(0.005)
