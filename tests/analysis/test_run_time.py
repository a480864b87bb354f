"""The time of a run as its report tells it."""

from __future__ import annotations

import zlib

import pytest

from host_calls import HostCalls, lasting
from recordings import execute, program, recording
from vtpu.analysis.run.step_batch import StepBatch, find_batch
from vtpu.analysis.run.time import StepSummary, TimeSummary, Timing, summarize_time
from vtpu.analysis.source_lines import LineFinder
from vtpu.clock.program_time import Estimate
from vtpu.program.element_types import ElementType
from vtpu.reading.wire import write_field
from vtpu.recording.recording import Recording, ShapeRecord


def time_of(recorded: Recording, durations=None, speed: float = 1.0) -> TimeSummary:
    timing = Timing(host_speed=speed, durations=durations or lasting(step=100))
    return summarize_time(recorded, LineFinder(recorded), timing)


def step_of(recorded: Recording, durations=None, speed: float = 1.0) -> StepSummary:
    step = time_of(recorded, durations, speed).step
    assert step is not None
    return step


def steps(times: int = 10, **parts) -> Recording:
    """A loop that gets a batch, sends it and reads the loss."""
    host = HostCalls()
    for number in range(1, times + 1):
        host.blocked(150).send(4096).execute(awaits=number).read(4)
    return host.recorded(**parts)


def test_the_program_that_keeps_the_device_longest_makes_the_steps():
    host = HostCalls().execute(3)
    for _ in range(10):
        host.execute(2).execute(2).execute(1)
    step = step_of(host.recorded(), lasting(step=50, other=10, third=1000))
    assert step.program == "jit_step"
    assert step.steps.median_s == pytest.approx(0.07)


def test_without_a_repeated_program_there_is_no_step():
    time = time_of(HostCalls().execute().execute(2).recorded())
    assert (time.step, time.why_no_step) == (None, "no program was executed repeatedly")
    assert time.executions == 2


def test_a_recording_of_an_older_version_has_no_times_and_says_so():
    time = time_of(recording(*(execute(1) for _ in range(5))))
    assert (time.step, time.total_s) == (None, None)
    assert "older version" in str(time.why_no_step)


def test_the_band_of_a_step_is_that_of_its_programs_where_they_decide():
    def durations(_: int) -> Estimate:
        return Estimate(0.1, 0.08, 0.13)

    host = HostCalls()
    for _ in range(10):
        host.works(5).execute().read()
    step = step_of(host.recorded(), durations)
    assert (step.low_s, step.high_s) == (pytest.approx(0.085), pytest.approx(0.135))
    bound_by_input = step_of(steps(), durations)
    assert bound_by_input.low_s == bound_by_input.high_s == pytest.approx(0.15)


def test_a_step_with_programs_of_unknown_time_is_a_lower_bound():
    host = HostCalls()
    for _ in range(10):
        host.execute().execute(2).read()
    time = time_of(host.recorded(), lasting(step=100))
    assert time.step.is_lower_bound
    assert (time.untimed_executions, time.untimed_programs) == (10, ("jit_other",))
    assert not step_of(host.recorded(), lasting(step=100, other=1)).is_lower_bound


def test_a_program_of_unknown_time_before_the_steps_is_none_of_them():
    host = HostCalls().execute(2)
    for _ in range(10):
        host.execute().read()
    time = time_of(host.recorded())
    assert not time.step.is_lower_bound
    assert time.untimed_executions == 1


def test_who_waits_for_batches_is_input_bound():
    assert step_of(steps()).is_input_bound
    assert not step_of(steps(), lasting(step=400)).is_input_bound


def test_compiling_is_told_apart():
    host = HostCalls().compiles(2500)
    for _ in range(5):
        host.execute().read()
    time = time_of(host.recorded())
    assert time.compile_s == 2.5
    assert time.total_s == pytest.approx(0.5)


# ---- the batch ---------------------------------------------------------------------------------

TOKENS = ShapeRecord(ElementType.S32, (8, 128), "{1,0}", 4096, 4096)
MASK = ShapeRecord(ElementType.F32, (8, 128, 16), "{2,1,0}", 65536, 65536)
OTHER = ShapeRecord(ElementType.F32, (3, 5), "{1,0}", 60, 4096)
RATE = ShapeRecord(ElementType.F32, (), "{}", 4, 512)
BY_TWO = b"\x08\x03\x1a\x02\x02\x01"  # OpSharding: tiled [2, 1]
SHAPES = ("s32[8,128]{1,0}", "f32[8,128,16]{2,1,0}", "f32[3,5]{1,0}", "f32[]{:T(128)}")


def test_the_batch_is_what_is_sent_to_each_step():
    found = steps(shapes=(TOKENS,), programs=(program(1, parameter_shapes=SHAPES),))
    step = step_of(found)
    assert step.batch == StepBatch(examples=8, tokens=1024)
    assert step.examples_per_s == pytest.approx(8 / 0.15)
    assert step.tokens_per_s == pytest.approx(1024 / 0.15)


@pytest.mark.parametrize(
    ("sent", "parameters", "batch"),
    [
        ((TOKENS, MASK, RATE), SHAPES, StepBatch(examples=8, tokens=1024)),
        ((MASK,), SHAPES, StepBatch(examples=8, tokens=None)),
        ((TOKENS, OTHER), SHAPES, None),  # two leading dimensions
        ((TOKENS,), SHAPES[1:], None),  # no argument of the step
        ((RATE,), SHAPES, None),
        ((), SHAPES, None),
    ],
)
def test_a_batch_is_known_only_where_all_that_is_sent_agrees(sent, parameters, batch):
    host = HostCalls().execute()
    for number in range(len(sent)):
        host.send(shape=number)
    found = host.execute().recorded(shapes=sent)
    step = program(1, parameter_shapes=parameters)
    assert find_batch(found, step, 0, len(found.events)) == batch


def test_a_batch_that_is_cut_over_devices_is_counted_whole():
    host = HostCalls().execute().send(device=0).send(device=1).execute()
    found = host.recorded(shapes=(TOKENS,))
    step = program(1, parameter_shapes=SHAPES[:1], num_partitions=2, hlo=hlo_with(BY_TWO))
    assert find_batch(found, step, 0, 4) == StepBatch(examples=16, tokens=2048)
    without = program(1, parameter_shapes=SHAPES[:1], num_partitions=2)
    assert find_batch(found, without, 0, 4) is None


def hlo_with(sharding: bytes) -> bytes:
    """A compressed HloModuleProtoWithConfig whose one parameter has this sharding."""
    return zlib.compress(write_field(1, write_field(14, sharding)))
