"""Where the times of a run's programs come from: the one place that decides."""

from __future__ import annotations

from collections.abc import Callable

from vtpu.analysis.time.programs import ProgramTimes
from vtpu.clock.program_time import ProgramTime
from vtpu.recording.recording import ProgramRecord, Recording

Times = Callable[[ProgramRecord], ProgramTime | None]
"""What an execution of a program takes; None where there is no model of it."""


def without_times(_program: ProgramRecord) -> ProgramTime | None:
    """No program has a model."""
    return None


def program_times(recording: Recording) -> Times:
    """The times of a recording's programs on its slice."""
    known = ProgramTimes(recording)
    return lambda program: known.of(program.number)
