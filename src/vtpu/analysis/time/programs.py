"""The modelled time of the programs in a recording."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from vtpu.chips import parse_slice
from vtpu.clock.calibrations import Calibration
from vtpu.clock.machine import Machine, machine_of
from vtpu.clock.program import program_time
from vtpu.clock.program_time import ProgramTime
from vtpu.clock.torus import Position
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.recording import DeviceRecord, ProgramRecord, RunRecord


def machine_of_run(run: RunRecord, calibration: Calibration | None = None) -> Machine:
    """A device of the slice that was run on, and where all its devices are."""
    return machine_of(parse_slice(run.slice), positions_of(run.devices), calibration)


def positions_of(devices: Iterable[DeviceRecord]) -> dict[int, Position]:
    """By id where devices are."""
    return {d.id: Position(_coords(d.coords), d.slice_index, d.core) for d in devices}


def time_of(program: ProgramRecord, run: RunRecord) -> ProgramTime | None:
    """How long an execution of a recorded program takes; None when there is no compiled module of it."""
    if program.error or not program.hlo:
        return None
    try:
        module = read_wrapped_module(zlib.decompress(program.hlo))
    except (WireError, zlib.error):
        return None
    return program_time(module, machine_of_run(run))


def _coords(given: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*given, 0, 0, 0)[:3]
    return x, y, z
