"""A recording as a timeline: on the virtual clock, or as recorded where that is all there is."""

from __future__ import annotations

import pytest

from host_calls import HostCalls, crossing
from plain_clock import plain_time
from recordings import execute, program, recording, run_record
from timelines import dumped
from vtpu.analysis.timeline.device_timeline import HostWork
from vtpu.analysis.timeline.recorded import Window, recorded_timeline
from vtpu.analysis.timeline.times import without_times
from vtpu.evidence import Basis
from vtpu.recording.events import EventFlag, EventKind

STEP = plain_time(dumped()[0]).total.seconds
MS = 1_000_000


def times(known):
    return plain_time(dumped()[0]) if known.number == 1 else None


def timeline(found, given=times, **parts):
    return recorded_timeline(found, given, host_name="host", **parts)


def old(*rows, **parts):
    """A recording of an older version: it does not say what the host's threads did."""
    return recording(*rows, **{"programs": (program(1), program(2, "jit_other")), **parts})


def launch(number, ms, key=1, **fields):
    return execute(key, subject=number, time_ns=ms * MS, host_ns=MS, **fields)


# ---- on the virtual clock ----


def test_a_step_stands_where_the_virtual_clock_has_it():
    calls = HostCalls()
    for _ in range(3):
        calls.works(1).execute().wait()
    found = timeline(calls.recorded())
    assert [e.number for e in found.executions] == [1, 2, 3]
    assert all(e.end_s - e.start_s == pytest.approx(STEP, abs=1e-9) for e in found.executions)
    for one, other in zip(found.executions, found.executions[1:], strict=False):
        assert other.start_s == pytest.approx(one.end_s + 1e-3, abs=1e-8)


def test_what_the_host_does_is_told_thread_by_thread():
    calls = HostCalls().works(2).execute().blocked(3).works(1).wait()
    done = [(s.work, s.thread) for s in timeline(calls.recorded()).host]
    assert (HostWork.EXECUTE, 1) in done
    assert (HostWork.BLOCKED, 1) in done
    assert (HostWork.WORK, 1) in done
    assert (HostWork.WAIT, 1) in done


def test_a_launch_knows_its_line_and_its_execution():
    [launched] = [
        s for s in timeline(HostCalls().execute().recorded()).host if s.work is HostWork.EXECUTE
    ]
    assert (launched.execution, launched.name) == (1, "jit_step")
    assert launched.line == "/project/train.py:12"


def test_transfers_take_the_time_of_their_link():
    calls = HostCalls().works(1).send(crossing(5)).execute(awaits=1)
    found = timeline(calls.recorded())
    [transfer] = found.transfers
    assert transfer.to_device
    assert transfer.end_s - transfer.start_s == pytest.approx(5e-3, rel=1e-3)
    assert found.executions[0].start_s == pytest.approx(transfer.end_s)


def test_a_program_without_a_model_is_a_moment_and_has_no_basis():
    [found] = timeline(HostCalls().execute(2).recorded()).executions
    assert (found.basis, found.start_s) == (None, found.end_s)


def test_on_every_device_of_a_program_there_is_an_execution():
    calls = HostCalls().execute()
    found = timeline(calls.recorded(run=run_record(2), programs=(program(1, device_ids=(0, 1)),)))
    assert [(e.number, e.device) for e in found.executions] == [(1, 0), (1, 1)]


def test_a_faster_host_leaves_less_between_executions():
    def gaps(speed):
        calls = HostCalls()
        for _ in range(3):
            calls.works(8).execute().wait()
        placed = timeline(calls.recorded(), host_speed=speed).executions
        return placed[1].start_s - placed[0].end_s

    assert gaps(2.0) == pytest.approx(gaps(1.0) / 2, rel=1e-3)


def test_a_window_shows_what_was_asked_for_in_it_where_the_host_asked():
    calls = HostCalls()
    for _ in range(4):
        calls.works(2).execute()
    whole = calls.recorded()
    began = int(whole.events["time_ns"][2])
    found = timeline(whole, window=Window(began, 5_000))
    assert found.began_unix_ns == 5_000
    assert [e.number for e in found.executions] == [3, 4]
    assert [s.execution for s in found.host] == [3, 4]
    assert found.host[0].start_s == 0.0
    assert found.executions[0].start_s >= 0.0


# ---- steps ----


def test_steps_begin_with_the_program_that_takes_most_of_the_time():
    calls = HostCalls().execute(3)
    for _ in range(3):
        calls.execute(1).execute(2)
    found = timeline(calls.recorded())
    assert [e.step for e in found.executions] == [None, 0, 0, 1, 1, 2, 2]
    launches = [s.step for s in found.host if s.work is HostWork.EXECUTE]
    assert launches == [None, 0, 0, 1, 1, 2, 2]


def test_a_program_that_runs_once_makes_no_step_where_another_repeats():
    long_once = HostCalls().execute(1)
    for _ in range(3):
        long_once.execute(2)
    assert [e.step for e in timeline(long_once.recorded()).executions] == [None, 0, 1, 2]


# ---- older recordings ----


def test_of_an_older_recording_executions_stand_one_behind_the_other():
    found = timeline(old(launch(1, 5), launch(2, 6)))
    one, other = found.executions
    assert one.start_s == pytest.approx(5e-3)
    assert other.start_s == pytest.approx(one.end_s)
    assert one.basis is Basis.MODELLED


def test_of_an_older_recording_a_program_without_a_model_takes_what_the_host_took():
    [found] = timeline(old(launch(1, 5)), without_times).executions
    assert found.end_s - found.start_s == pytest.approx(1e-3)
    assert found.basis is Basis.MEASURED


def test_an_execution_that_failed_did_not_happen():
    assert timeline(old(launch(1, 5, flags=int(EventFlag.FAILED)))).executions == ()


def test_of_an_older_recording_transfers_keep_the_hosts_times():
    sent = {"kind": EventKind.HOST_TO_DEVICE, "bytes": 64, "host_ns": MS, "time_ns": MS}
    [found] = timeline(old(sent)).transfers
    assert (found.bytes, found.basis) == (64, Basis.MEASURED)


def test_an_empty_recording_is_an_empty_timeline():
    found = timeline(old())
    assert (found.executions, found.host, found.transfers) == ((), (), ())


def test_the_devices_of_the_host_count_from_nought():
    found = timeline(old(run=run_record(3)))
    assert [(d.id, d.ordinal) for d in found.devices] == [(0, 0), (1, 1), (2, 2)]
