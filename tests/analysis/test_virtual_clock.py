"""A recording on the virtual clock: what a loop costs on the slice, and why the device waits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_calls import HostCalls, crossing, lasting
from recordings import program, recording, run_record
from vtpu.analysis.run.calls import knows_host_time, paused_before
from vtpu.analysis.run.step_time import BoundBy, Steps, find_steps, program_of_steps
from vtpu.analysis.run.virtual_clock import Doing, VirtualRun, run_on_clock
from vtpu.clock.timeline import MOST_IN_FLIGHT
from vtpu.recording.events import SOURCE_KIND_SHIFT, EventKind, MemoryKind
from vtpu.recording.recording import DeviceRecord, Recording, StackFrame

MS = 1e-3


def steps_of(recorded: Recording, durations, speed: float = 1.0) -> Steps:
    run = run_on_clock(recorded, durations, speed)
    number = program_of_steps(run, ())
    assert isinstance(number, int)
    return find_steps(recorded, run, number)


def approx(ms: float):
    return pytest.approx(ms * MS, abs=1e-9)


# ---- loops as people write them ----------------------------------------------------------------


def loop(times: int, *, reads: bool, works: float = 0, blocked: float = 0) -> HostCalls:
    """A training loop that gets its batch from another thread, and may look at the loss."""
    host = HostCalls()
    for _ in range(times):
        host.blocked(blocked).works(works).execute()
        if reads:
            host.read()
    return host


def test_a_loader_that_is_faster_than_the_device_hides_behind_it():
    steps = steps_of(loop(20, reads=True, blocked=50).recorded(), lasting(step=100))
    assert steps.median_s == steps.mean_s == steps.busy_s == approx(100)
    assert steps.bound_by is BoundBy.DEVICE
    assert steps.host_waits_s == approx(100)


def test_a_loader_that_is_slower_makes_the_step_and_leaves_the_device_idle():
    steps = steps_of(loop(20, reads=True, blocked=150).recorded(), lasting(step=100))
    assert steps.median_s == approx(150)
    assert steps.busy_s == approx(100)
    assert steps.idle.host_blocked_s == approx(50)
    assert steps.bound_by is BoundBy.HOST_BLOCKED


def test_work_of_the_host_hides_behind_the_device_until_it_reads_the_loss():
    free = steps_of(loop(80, reads=False, works=30).recorded(), lasting(step=100))
    assert free.median_s == approx(100)
    assert free.idle.host_works_s == 0
    serial = steps_of(loop(80, reads=True, works=30).recorded(), lasting(step=100))
    assert serial.median_s == approx(130)
    assert serial.idle.host_works_s == approx(30)
    assert serial.bound_by is BoundBy.HOST_WORK


def test_reading_the_loss_of_the_step_before_keeps_the_device_busy():
    host = HostCalls()
    for number in range(20):
        host.works(30).execute()
        if number:
            host.read(awaits_execution=number)
    assert steps_of(host.recorded(), lasting(step=100)).median_s == approx(100)


def test_a_faster_host_works_less_and_is_blocked_as_long():
    host = loop(20, reads=True, works=30, blocked=150).recorded()
    assert steps_of(host, lasting(step=20), 1.0).median_s == approx(180)
    assert steps_of(host, lasting(step=20), 2.0).median_s == approx(165)
    assert steps_of(host, lasting(step=20), 0.5).median_s == approx(210)


def test_input_that_takes_longer_to_send_than_to_compute_bounds_the_step():
    host = HostCalls()
    for number in range(1, 21):
        host.works(1).send(crossing(66)).execute(awaits=number)
    steps = steps_of(host.recorded(), lasting(step=20))
    assert steps.median_s == approx(66)
    assert steps.idle.input_transfer_s == approx(66 - 20)
    assert steps.bound_by is BoundBy.INPUT_TRANSFER
    assert (steps.to_device.bytes, steps.from_device.bytes) == (crossing(66), 0)
    assert steps.to_device.seconds == approx(66)


def test_results_on_their_way_to_the_host_keep_it_from_going_on():
    host = HostCalls()
    for _ in range(20):
        host.works(1).execute().read(crossing(66))
    steps = steps_of(host.recorded(), lasting(step=20))
    assert steps.median_s == approx(1 + 20 + 66)
    assert steps.idle.host_waits_s == approx(66)
    assert steps.bound_by is BoundBy.HOST_WAITS
    assert steps.from_device.seconds == approx(66)


def test_what_is_read_ahead_does_not_keep_the_host():
    def recorded(*functions: str) -> Recording:
        frames = tuple(StackFrame("/venv/jax/_src/array.py", f, 1) for f in functions)
        host = HostCalls()
        for _ in range(20):
            host.works(10).execute().read(crossing(66))
        return host.recorded(stacks=(frames,))

    ahead = recorded("ArrayImpl.copy_to_host_async", "log")
    assert steps_of(ahead, lasting(step=100)).median_s == approx(100)
    assert run_on_clock(ahead, lasting(step=100)).asked_ahead == 20
    at_once = recorded("ArrayImpl.copy_to_host_async", "device_get", "log")
    assert steps_of(at_once, lasting(step=100)).median_s == approx(10 + 100 + 66)
    assert run_on_clock(at_once, lasting(step=100)).asked_ahead == 0


def test_the_host_waits_where_it_says_so():
    host = HostCalls()
    for _ in range(20):
        host.works(30).execute().execute(2).wait()
    steps = steps_of(host.recorded(), lasting(step=100, other=40))
    assert (steps.median_s, steps.busy_s) == (approx(170), approx(140))


def test_the_host_runs_ahead_of_the_device_only_so_far():
    run = run_on_clock(loop(100, reads=False, works=1).recorded(), lasting(step=100))
    queueing = run.stretches[run.stretches["doing"] == Doing.QUEUEING]
    assert len(queueing) == 100 - MOST_IN_FLIGHT
    waiting = run.executions["begin_ns"] - run.executions["asked_ns"]
    assert waiting.max() <= (MOST_IN_FLIGHT - 1) * 100e6


# ---- what is no time of the slice --------------------------------------------------------------


def test_what_vtpu_computes_takes_no_time():
    host = HostCalls()
    for _ in range(20):
        host.works(30).execute().vtpu_works(500).read()
    assert steps_of(host.recorded(), lasting(step=100)).median_s == approx(130)


def test_steps_in_which_something_was_compiled_are_left_out():
    host = HostCalls().works(5)
    for number in range(12):
        if number in (0, 5):
            host.works(400).compiles(3000)  # JAX traces before
        host.works(10).execute().read()
    steps = steps_of(host.recorded(), lasting(step=100))
    assert (steps.count, steps.left_out) == (9, 2)  # the first, and that with the compile
    assert steps.median_s == steps.fast_s == steps.slow_s == approx(110)


def test_a_pause_of_another_thread_is_none_of_the_batch():
    events = HostCalls().vtpu_works(10).blocked(20).vtpu_works(5).recorded().events
    before = paused_before(events, np.array([0, 1, 6, 11, 31, 34, 50]) * 1_000_000)
    assert (before / 1e6).tolist() == [0, 0, 5, 10, 10, 13, 15]


# ---- other devices, other threads --------------------------------------------------------------


def test_executions_on_other_devices_do_not_wait_for_each_other():
    devices = run_record(2)
    programs = (program(1, device_ids=(0,)), program(2, device_ids=(1,)), program(3))
    host = HostCalls()
    for _ in range(5):
        host.execute(1).execute(2)
    run = run_on_clock(host.recorded(run=devices, programs=programs), lasting(step=10, other=10))
    assert run.executions["end_ns"].max() - run.executions["begin_ns"].min() == 50e6


def test_an_execution_on_all_devices_waits_for_the_last():
    programs = (program(1, device_ids=(0, 1)), program(2, device_ids=(1,)), program(3))
    host = HostCalls()
    for _ in range(20):
        host.works(1).execute(2).execute(1).read()
    recorded = host.recorded(run=run_record(2), programs=programs)
    steps = steps_of(recorded, lasting(step=100, other=30))
    assert steps.median_s == approx(131)
    assert steps.idle.other_devices_s == approx(30)


def test_two_devices_of_a_chip_share_its_link():
    chip = tuple(DeviceRecord(id=i, host=0, kind="x", coords=(0, 0, 0), core=i) for i in (0, 1))
    host = HostCalls().send(crossing(66), 0).send(crossing(66), 1)
    one = run_on_clock(host.recorded(run=run_record(devices=chip)), lasting())
    two = run_on_clock(host.recorded(run=run_record(2)), lasting())
    assert one.transfers["begin_ns"].tolist() != two.transfers["begin_ns"].tolist()
    assert len(set(two.transfers["begin_ns"].tolist())) == 1


def test_a_link_without_a_known_rate_is_said_and_its_transfers_take_no_time():
    host = HostCalls().send(crossing(66)).execute(awaits=1)
    run = run_on_clock(host.recorded(run=run_record(slice="v5p:2x2x1")), lasting(step=1))
    assert run.untimed_bytes == crossing(66)
    assert run.executions["begin_ns"][0] == run.executions["asked_ns"][0]


def test_copies_between_devices_are_counted_and_take_no_time():
    host = (
        HostCalls().execute().call(EventKind.COPY, awaits_execution=1, device=1).execute(awaits=1)
    )
    run = run_on_clock(host.recorded(run=run_record(2)), lasting(step=10))
    assert run.between_devices == 1
    assert run.executions["begin_ns"][1] == run.executions["inputs_ns"][1]


def test_offloaded_arrays_cross_the_link():
    to_host = {"flags": MemoryKind.PINNED_HOST, "bytes": crossing(30), "awaits_execution": 1}
    to_device = {"flags": MemoryKind.PINNED_HOST << SOURCE_KIND_SHIFT, "bytes": crossing(20)}
    host = HostCalls().execute().call(EventKind.COPY, **to_host)
    host.call(EventKind.COPY, **to_device, awaits_transfer=1).execute(awaits=2)
    run = run_on_clock(host.recorded(), lasting(step=10))
    assert run.transfers["to_host"].tolist() == [True, False]
    assert run.executions["begin_ns"][1] - run.executions["begin_ns"][0] == 60e6


def test_a_program_without_a_time_is_said_and_takes_none():
    run = run_on_clock(loop(5, reads=True, works=10).recorded(), lasting(other=5))
    assert run.unknown == {1}
    assert (run.executions["end_ns"] == run.executions["begin_ns"]).all()


def test_executions_that_failed_did_not_happen():
    host = HostCalls().execute().call(EventKind.EXECUTE, program=1, subject=2, flags=2).execute()
    assert len(run_on_clock(host.recorded(), lasting(step=1)).executions) == 2


def test_executions_on_different_devices_are_no_steps_of_each_other():
    host = HostCalls()
    for device in (0, 1, 0, 1):
        host.execute(device=device)
    run = run_on_clock(host.recorded(run=run_record(2)), lasting(step=10))
    assert isinstance(program_of_steps(run, ()), str)
    host.execute(device=0)
    steps = steps_of(host.recorded(run=run_record(2)), lasting(step=10))
    assert (steps.count + steps.left_out, steps.device) == (2, 0)


def test_a_function_with_other_shapes_in_each_call_leaves_no_steps_to_another_program():
    host = HostCalls()
    for number in range(4):
        host.execute(program=2 + number)
        host.execute(program=1)
    run = run_on_clock(host.recorded(), lambda program: lasting(step=1 if program == 1 else 10)(1))
    decodes = [program(n, "jit_decode", reason="other shapes") for n in range(2, 6)]
    said = program_of_steps(run, [program(1, "jit_split"), *decodes])
    assert "jit_decode, which keeps the device longest, has other shapes" in str(said)
    operations = [program(n, "jit__normal") for n in range(2, 6)]
    assert program_of_steps(run, operations) == 1


def test_a_run_without_devices_has_no_steps():
    run = run_on_clock(loop(5, reads=True).recorded(run=run_record(0)), lasting(step=10))
    assert isinstance(program_of_steps(run, ()), str)


def test_a_recording_of_the_first_form_has_no_host_time():
    assert not knows_host_time(recording({"kind": EventKind.EXECUTE, "program": 1}))
    assert knows_host_time(HostCalls().execute().recorded())


# ---- laws --------------------------------------------------------------------------------------

CALLS = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.integers(0, 20),
        st.sampled_from(["execute", "other", "send", "read", "wait", "pause"]),
    ),
    max_size=60,
)


def thread(calls) -> Recording:
    host = HostCalls()
    for blocked, works, what in calls:
        host.blocked(blocked).works(works)
        if what == "execute":
            host.execute(awaits=host.transfers)
        elif what == "other":
            host.execute(2)
        elif what == "send":
            host.send(crossing(7))
        elif what == "read":
            host.read(crossing(7))
        elif what == "wait":
            host.wait()
        else:
            host.vtpu_works(7)
    return host.recorded()


def end_of(run: VirtualRun) -> int:
    parts = (run.executions, run.stretches, run.transfers)
    return max((int(part["end_ns"].max()) for part in parts if len(part)), default=0)


@given(CALLS)
@settings(max_examples=60)
def test_no_lane_does_two_things_at_once(calls):
    run = run_on_clock(thread(calls), lasting(step=13, other=5))
    lanes = [run.executions, run.stretches]
    lanes += [run.transfers[run.transfers["to_host"] == to_host] for to_host in (False, True)]
    for lane in lanes:
        spans = sorted(zip(lane["begin_ns"].tolist(), lane["end_ns"].tolist(), strict=True))
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert (run.executions["begin_ns"] >= run.executions["asked_ns"]).all()
    assert (run.executions["begin_ns"] >= run.executions["inputs_ns"]).all()


@given(CALLS, st.sampled_from([1.5, 2.0, 10.0]))
@settings(max_examples=60)
def test_a_faster_host_never_makes_a_longer_run(calls, speed):
    recorded, durations = thread(calls), lasting(step=13, other=5)
    slow, fast = run_on_clock(recorded, durations), run_on_clock(recorded, durations, speed)
    assert end_of(fast) <= end_of(slow) + 1


@given(CALLS)
@settings(max_examples=60)
def test_a_faster_device_never_makes_a_longer_run(calls):
    recorded = thread(calls)
    slow = run_on_clock(recorded, lasting(step=13, other=5))
    fast = run_on_clock(recorded, lasting(step=6, other=5))
    assert end_of(fast) <= end_of(slow)


@given(CALLS)
@settings(max_examples=60)
def test_busy_and_idle_are_the_whole_step(calls):
    recorded = thread([(0, 1, "execute"), *calls, (0, 1, "execute"), *calls, (0, 1, "execute")])
    run = run_on_clock(recorded, lasting(step=13, other=5))
    steps = find_steps(recorded, run, 1)
    idle = sum(seconds for _, seconds in steps.idle.parts())
    assert steps.busy_s + idle == pytest.approx(steps.mean_s, abs=1e-9)
    assert all(seconds >= -1e-9 for _, seconds in steps.idle.parts())
