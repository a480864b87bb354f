"""How long the programs of a recording take, each computed when it is first asked for."""

from __future__ import annotations

import zlib

from vtpu.chips import UnknownSlice, parse_slice
from vtpu.clock.machine import Machine, machine_of
from vtpu.clock.program import program_time
from vtpu.clock.program_time import Estimate, ProgramTime
from vtpu.clock.torus import Position
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.recording import DeviceRecord, ProgramRecord, Recording, RunRecord


class ProgramTimes:
    """The times of programs by number. Programs of one content are one."""

    def __init__(self, recording: Recording) -> None:
        self._programs = {p.number: p for p in recording.programs if p.hlo and not p.error}
        self._machine = machine_of_run(recording.run)
        self._known: dict[str | int, ProgramTime | None] = {}

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
            self._known[key] = _time_of(record, self._machine)
        return self._known[key]


def _time_of(program: ProgramRecord, machine: Machine) -> ProgramTime | None:
    try:
        module = read_wrapped_module(zlib.decompress(program.hlo))
    except (WireError, zlib.error):
        return None
    return program_time(module, machine)


def machine_of_run(run: RunRecord) -> Machine | None:
    """A device of the slice of a run; None when this vtpu does not know that slice."""
    try:
        wanted = parse_slice(run.slice)
    except UnknownSlice:  # the recording is of another release
        return None
    return machine_of(wanted, {d.id: _position(d) for d in run.devices})


def _position(device: DeviceRecord) -> Position:
    x, y, z, *_ = (*device.coords, 0, 0, 0)
    return Position((x, y, z), device.slice_index, device.core)
