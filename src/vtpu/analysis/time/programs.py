"""The modelled time of programs: of one compiled for a slice, and of those in a recording."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import product

from vtpu.chips import Slice, UnknownSlice, parse_slice
from vtpu.clock.calibrations import Calibration
from vtpu.clock.machine import Machine, machine_of
from vtpu.clock.program import program_time
from vtpu.clock.program_time import Estimate, ProgramTime
from vtpu.clock.torus import Position, position_at
from vtpu.program.modules import Module
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.recording import ProgramRecord, Recording, RunRecord

_IDS_PER_SLICE = 100_000


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


def time_on_slice(module: Module, wanted: Slice) -> ProgramTime:
    """How long an execution of a compiled module takes on a device of a slice."""
    return program_time(module, machine_of_slice(wanted))


Durations = Callable[[int], Estimate | None]
"""How long one execution of a program takes, by the program's number; None: not known."""


class ProgramTimes:
    """The times of programs by number. Programs of one content are one."""

    def __init__(self, recording: Recording) -> None:
        self._programs = {p.number: p for p in recording.programs if p.hlo and not p.error}
        self._machine = machine_of_run(recording.run)
        self._known: dict[str | int, ProgramTime | None] = {}
        self._modules: dict[str | int, Module | None] = {}

    def __call__(self, program: int) -> Estimate | None:
        """How long one execution takes; None when there is no module, or no operation has a model."""
        time = self.of(program)
        return time.total if time else None

    def of(self, program: int) -> ProgramTime | None:
        """The same, taken apart."""
        record = self._programs.get(program)
        if record is None or self._machine is None:
            return None
        key = record.key or record.number
        if key not in self._known:
            module = self.module(program)
            self._known[key] = program_time(module, self._machine) if module else None
        return self._known[key]

    def module(self, program: int) -> Module | None:
        """The compiled module; None when the recording holds none, or a damaged one."""
        record = self._programs.get(program)
        if record is None:
            return None
        key = record.key or record.number
        if key not in self._modules:
            self._modules[key] = _module_of(record)
        return self._modules[key]


def _module_of(record: ProgramRecord) -> Module | None:
    try:
        return read_wrapped_module(zlib.decompress(record.hlo))
    except (WireError, zlib.error):
        return None


def machine_of_run(run: RunRecord) -> Machine | None:
    """A device of the slice of a run; None when this vtpu does not know that slice."""
    try:
        wanted = parse_slice(run.slice)
    except UnknownSlice:  # the recording is of another release
        return None
    return machine_of(wanted, positions_of(run))


def positions_of(run: RunRecord) -> dict[int, Position]:
    """By id where the devices of a run's slices are; one of unknown coordinates is a chip of its own."""
    return {d.id: position_at(d.coords or (d.id,), d.slice_index, d.core) for d in run.devices}
