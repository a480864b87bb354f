"""What makes steps, what grows with them, and what nothing uses, from recordings written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import allocate, events, execute, free, program, stack
from recordings import run_record as run
from vtpu.analysis.run.arrays import Arrays, arrays_of
from vtpu.analysis.run.stepping import Growth, find_growth, find_stepping
from vtpu.analysis.run.unused import find_dropped, find_idle
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import ProgramRecord, Recording, ShapeRecord

STATE, EXTRA, OTHER = 0, 1, 2  # numbers of shapes
SIZE = 1 << 20
SHAPES = tuple(ShapeRecord(11, (n, 128), "", SIZE, SIZE) for n in (1, 2, 3))
STEP = program(1, parameter_shapes=("f32[1,128]{1,0}",), argument_bytes=SIZE)
Row = dict[str, Any]


class Script:
    """Writes what a program does, buffer by buffer."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._buffers = 0

    def make(self, shape: int, by: int = 0, size: int = SIZE, line: int = 1) -> int:
        """A new array; its number."""
        self._buffers += 1
        self.rows.append(
            allocate(self._buffers, size, detail=shape, program=by, stack=line, address=0)
        )
        return self._buffers

    def drop(self, *buffers: int) -> None:
        """Arrays go."""
        self.rows += [free(b, SIZE) for b in buffers]

    def run(self, number: int) -> None:
        """A program is executed."""
        self.rows.append(execute(number))

    def step(self, state: int) -> tuple[int, int]:
        """The program takes the state and gives a new one and something more."""
        self.run(1)
        new, extra = self.make(STATE, by=1), self.make(EXTRA, by=1)
        self.drop(state)
        return new, extra

    def recording(self, *programs: ProgramRecord) -> Recording:
        """What was written, with a line of its own for each stack."""
        return Recording(
            run=run(),
            stacks=tuple(stack(("/project/train.py", n)) for n in (1, 2, 3)),
            shapes=SHAPES,
            programs=programs or (STEP,),
            events=events(*self.rows),
        )


def growth_of(script: Script, *programs: ProgramRecord) -> tuple[Growth, ...]:
    recording = script.recording(*programs)
    return find_growth(recording, arrays_of(recording, 0), LineFinder(recording))


def arrays_in(script: Script) -> tuple[Recording, Arrays]:
    recording = script.recording()
    return recording, arrays_of(recording, 0)


# ---- arrays ------------------------------------------------------------------------------------


def test_an_array_knows_its_execution_and_its_place_among_the_outputs() -> None:
    script = Script()
    state = script.make(STATE)
    script.step(state)
    _, arrays = arrays_in(script)
    assert arrays.execution.tolist() == [-1, 1, 1]
    assert arrays.place.tolist()[1:] == [0, 1]
    assert arrays.freed.tolist() == [4, 5, 5]  # the last two never


def test_a_donated_array_is_passed_on_and_a_read_is_noted() -> None:
    script = Script()
    state = script.make(STATE)
    script.rows += [
        {"kind": EventKind.DEVICE_TO_HOST, "subject": state},
        free(state, SIZE, flags=EventFlag.ALIASED),
    ]
    _, arrays = arrays_in(script)
    assert arrays.is_passed_on.tolist() == [True]
    assert arrays.looked.tolist() == [1]


# ---- steps -------------------------------------------------------------------------------------


def test_a_program_that_takes_its_own_results_makes_steps() -> None:
    script, state = Script(), 0
    state = script.make(STATE)
    for _ in range(12):
        state, extra = script.step(state)
        script.drop(extra)
    recording, arrays = arrays_in(script)
    assert [s.program.number for s in find_stepping(recording, arrays)] == [1]


def test_a_program_that_is_fed_from_the_host_makes_steps_if_it_takes_more_that_stays() -> None:
    predict = program(1, argument_bytes=8 * SIZE)
    convert = program(1, argument_bytes=SIZE)
    script = Script()
    for _ in range(12):
        batch = script.make(OTHER)
        script.run(1)
        script.make(EXTRA, by=1)
        script.drop(batch)
    for takes, expected in ((predict, 1), (convert, 0)):
        recording = script.recording(takes)
        assert len(find_stepping(recording, arrays_of(recording, 0))) == expected


def test_what_builds_a_model_array_by_array_makes_no_steps() -> None:
    script = Script()
    for _ in range(24):
        script.run(1)
        noise = script.make(OTHER, by=1)
        script.run(2)
        script.make(STATE, by=2)
        script.drop(noise)
    multiply = program(2, parameter_shapes=("f32[3,128]",), argument_bytes=SIZE)
    recording = script.recording(STEP, multiply)
    assert find_stepping(recording, arrays_of(recording, 0)) == ()


# ---- growth ------------------------------------------------------------------------------------


def test_what_stays_of_every_step_grows() -> None:
    script = Script()
    state = script.make(STATE)
    for _ in range(12):
        state, _ = script.step(state)
    (growth,) = growth_of(script)
    assert (growth.program, growth.place, growth.count) == (1, 1, 11)
    assert growth.bytes_per_step == SIZE


def test_what_stays_of_every_fourth_step_grows_a_quarter_as_fast() -> None:
    script = Script()
    state = script.make(STATE)
    for i in range(41):
        state, extra = script.step(state)
        if i % 4:
            script.drop(extra)
    (growth,) = growth_of(script)
    assert growth.bytes_per_step == SIZE / 4


def test_what_goes_when_the_function_ends_has_grown_before() -> None:
    script = Script()
    state, kept = script.make(STATE), []
    for _ in range(12):
        state, extra = script.step(state)
        kept.append(extra)
    script.drop(state, *kept)
    assert len(growth_of(script)) == 1


def test_a_cache_of_the_last_ones_does_not_grow() -> None:
    script = Script()
    state, kept = script.make(STATE), []
    for _ in range(40):
        state, extra = script.step(state)
        kept.append(extra)
        if len(kept) > 4:
            script.drop(kept.pop(0))
    assert growth_of(script) == ()


def test_a_cache_that_is_filled_and_then_level_does_not_grow() -> None:
    script = Script()
    state = script.make(STATE)
    for i in range(40):
        state, extra = script.step(state)
        if i >= 16:
            script.drop(extra)
    assert growth_of(script) == ()


def test_few_steps_tell_nothing() -> None:
    script = Script()
    state = script.make(STATE)
    for _ in range(9):
        state, _ = script.step(state)
    assert growth_of(script) == ()


# ---- what nothing uses -------------------------------------------------------------------------


def idle_in(script: Script, *, is_whole: bool = True) -> list[int]:
    """Numbers of the buffers that lie idle."""
    recording, arrays = arrays_in(script)
    found = find_idle(recording, arrays, is_whole=is_whole)
    return found.arrays.column("subject").tolist() if found else []


def steps(script: Script, state: int, count: int) -> int:
    for _ in range(count):
        state, extra = script.step(state)
        script.drop(extra)
    return state


def test_an_array_that_no_step_takes_is_idle() -> None:
    script = Script()
    table = script.make(OTHER)
    steps(script, script.make(STATE), 20)
    assert idle_in(script) == [table]


def test_of_a_run_that_failed_what_was_never_used_may_have_been_for_later() -> None:
    script = Script()
    script.make(OTHER)
    steps(script, script.make(STATE), 20)
    assert idle_in(script, is_whole=False) == []


def test_an_array_with_the_shape_of_a_parameter_is_never_idle() -> None:
    script = Script()
    script.make(STATE)
    steps(script, script.make(STATE), 20)
    assert idle_in(script) == []


@pytest.mark.parametrize("kind", [EventKind.DEVICE_TO_HOST, EventKind.WAIT, EventKind.COPY])
def test_an_array_that_the_host_looks_at_in_the_end_is_not_idle(kind: EventKind) -> None:
    script = Script()
    table = script.make(OTHER)
    steps(script, script.make(STATE), 20)
    script.rows.append({"kind": kind, "subject": table})
    assert idle_in(script) == []


def test_an_array_that_goes_before_the_steps_end_is_not_idle() -> None:
    script = Script()
    table = script.make(OTHER)
    state = steps(script, script.make(STATE), 19)
    script.drop(table)
    steps(script, state, 1)
    assert idle_in(script) == []


def test_an_output_that_goes_unused_each_time_is_dropped() -> None:
    script = Script()
    steps(script, script.make(STATE), 12)
    recording, arrays = arrays_in(script)
    (dropped,) = find_dropped(recording, arrays)
    assert (dropped.program, dropped.place, dropped.bytes, dropped.count) == (1, 1, SIZE, 12)


def test_an_output_that_the_host_reads_once_is_not_dropped() -> None:
    script = Script()
    state = steps(script, script.make(STATE), 12)
    state, extra = script.step(state)
    script.rows.append({"kind": EventKind.DEVICE_TO_HOST, "subject": extra})
    script.drop(extra)
    recording, arrays = arrays_in(script)
    assert find_dropped(recording, arrays) == ()
