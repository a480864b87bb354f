"""How long the programs of a recording take, by number, as the cost model says."""

from __future__ import annotations

from collections.abc import Callable

from vtpu.analysis.time.programs import machine_of_run
from vtpu.analysis.timeline.times import program_times
from vtpu.chips import UnknownSlice
from vtpu.clock.machine import Machine
from vtpu.clock.program_time import Estimate
from vtpu.recording.recording import Recording

Durations = Callable[[int], Estimate | None]
"""How long one execution of a program takes, by the program's number; None: not known."""


def machine_of_recording(recording: Recording) -> Machine | None:
    """A device of the slice that was run on; None when this vtpu does not know it."""
    try:
        return machine_of_run(recording.run)
    except UnknownSlice:  # the recording is of another release
        return None


def modelled_durations(recording: Recording) -> Durations:
    """What the cost model says, of each program when it is first asked for."""
    times = program_times(recording.run)
    programs = {p.number: p for p in recording.programs}
    is_known = machine_of_recording(recording) is not None

    def duration(number: int) -> Estimate | None:
        program = programs.get(number)
        time = times(program) if program and is_known else None
        return time.total if time else None

    return duration
