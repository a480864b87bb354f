"""The modelled time of the programs in a recording."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import product

from vtpu.chips import Slice, parse_slice
from vtpu.clock.calibrations import Calibration
from vtpu.clock.machine import Machine, machine_of
from vtpu.clock.program import program_time
from vtpu.clock.program_time import ProgramTime
from vtpu.clock.torus import Position
from vtpu.program.modules import Module
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.recording import DeviceRecord, ProgramRecord, RunRecord

_IDS_PER_SLICE = 100_000


def machine_of_run(run: RunRecord, calibration: Calibration | None = None) -> Machine:
    """A device of the slice that was run on, and where all its devices are."""
    return machine_of(parse_slice(run.slice), positions_of(run.devices), calibration)


def machine_of_slice(wanted: Slice, calibration: Calibration | None = None) -> Machine:
    """A device of a slice, its devices numbered as libtpu does: along x, then y, then z.

    Where there are several slices, those of the first count from 100,000, of the second from 200,000.
    """
    x, y, z = wanted.bounds
    cores = wanted.generation.chip.xla_devices_per_chip.value
    places = list(product(range(z), range(y), range(x), range(cores)))
    positions = {
        _first_id(wanted, slice_index) + number: Position((i, j, k), slice_index, core)
        for slice_index in range(wanted.num_slices)
        for number, (k, j, i, core) in enumerate(places)
    }
    return machine_of(wanted, positions, calibration)


def _first_id(wanted: Slice, slice_index: int) -> int:
    return 0 if wanted.num_slices == 1 else (slice_index + 1) * _IDS_PER_SLICE


def positions_of(devices: Iterable[DeviceRecord]) -> dict[int, Position]:
    """By id where devices are."""
    return {d.id: Position(_coords(d.coords), d.slice_index, d.core) for d in devices}


def time_on_slice(module: Module, wanted: Slice) -> ProgramTime:
    """How long an execution of a compiled module takes on a device of a slice."""
    return program_time(module, machine_of_slice(wanted))


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
