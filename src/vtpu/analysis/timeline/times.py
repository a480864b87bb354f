"""Where the times of a run's programs come from: the one place that decides."""

from __future__ import annotations

from collections.abc import Callable

from vtpu.analysis.time.programs import time_of
from vtpu.clock.program_time import ProgramTime
from vtpu.recording.recording import ProgramRecord, RunRecord

Times = Callable[[ProgramRecord], ProgramTime | None]
"""What an execution of a program takes; None where there is no model of it."""


def without_times(_program: ProgramRecord) -> ProgramTime | None:
    """No program has a model: executions are shown where the host made them."""
    return None


def program_times(run: RunRecord) -> Times:
    """The times of a run's programs on its slice."""
    known: dict[str, ProgramTime | None] = {}

    def of(program: ProgramRecord) -> ProgramTime | None:
        key = program.key or str(program.number)
        if key not in known:
            known[key] = time_of(program, run)
        return known[key]

    return of
