"""Pace: the virtual clock while the program runs, so that it really waits for the slice.

The clock is that of this machine, and the host that of the slice. What vtpu itself does meanwhile
(computing values) hides behind the devices' time as long as it takes less.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import cast

from vtpu.chips import Slice
from vtpu.clock.host_links import links_of
from vtpu.clock.machine import Machine, machine_of
from vtpu.clock.program import program_time
from vtpu.clock.timeline import Timeline
from vtpu.clock.torus import Position, position_at
from vtpu.compiler.results import DeviceFacts, TopologyFacts
from vtpu.device.programs import LoadableProgram
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.events import MEMORY_KIND_MASK, SOURCE_KIND_SHIFT, EventKind, MemoryKind

_NS = 1e9


ProgramSeconds = Callable[[str], float | None]
"""How long one execution of the program of a name takes; None: as the cost model says."""


class Pace:
    """Says of every execution and transfer when it will be done. Times are nanoseconds.

    `given`: times of programs that somebody knows better than the cost model. `note_problem` is told of
    programs whose time nobody knows; their results are there at once.
    """

    def __init__(
        self,
        wanted: Slice,
        facts: TopologyFacts,
        host: int,
        given: ProgramSeconds | None,
        note_problem: Callable[[str], None],
    ) -> None:
        local = [d for d in facts.devices if d.process_index == host]
        positions = {d.id: _position(d) for d in facts.devices}
        self._machine = machine_of(wanted, positions)
        self._timeline = Timeline(
            [d.id for d in local], links_of(positions), self._machine.host_link_bytes_per_s
        )
        self._local = frozenset(d.id for d in local)
        self._given = given
        self._note_problem = note_problem
        self._programs: dict[int, tuple[tuple[int, ...], int]] = {}
        self._lock = threading.Lock()

    def add_program(
        self, number: int, program: LoadableProgram, device_ids: tuple[int, ...]
    ) -> None:
        """A program that may be executed from now on."""
        local = tuple(d for d in device_ids if d in self._local)
        self._programs[number] = (local, round(self._seconds(program) * _NS))

    def _seconds(self, program: LoadableProgram) -> float:
        name = program.compiled.name
        seconds = self._given_seconds(name)
        if seconds is None:
            seconds = _modelled_seconds(program, self._machine)
        if seconds is None:
            self._note_problem(f"how long {name} takes is not known: with pace it takes no time")
        return seconds or 0.0

    def _given_seconds(self, name: str) -> float | None:
        """What `pace` says of a program; an answer that is no time is noted and counts as none."""
        if self._given is None:
            return None
        try:
            answer = cast("object", self._given(name))  # whatever the user's function gives
        except Exception as error:  # the user's function may raise whatever it likes
            self._note_problem(f"pace({name!r}) failed: {error!r}. The cost model's time is taken.")
            return None
        if answer is None:
            return None
        if isinstance(answer, int | float) and 0 <= answer < math.inf:
            return float(answer)
        self._note_problem(
            f"pace({name!r}) gave {answer!r}, which is no time in seconds. The cost model's is taken."
        )
        return None

    def place_execution(
        self, at_ns: int, number: int, program: int, device: int, awaits: int
    ) -> tuple[int, int]:
        """When an execution that is asked for at `at_ns` is done, and when the host may go on."""
        devices, length = self._programs.get(program, ((), 0))
        if device >= 0:
            devices = (device,)
        with self._lock:
            asked = self._timeline.room(at_ns, devices)
            span = self._timeline.execute(asked, number, devices, length, awaits)
        return span.end_ns, asked

    def place_transfer(
        self, at_ns: int, kind: int, flags: int, number: int, device: int, size: int
    ) -> int:
        """When a transfer is done whose source is there, and which is asked for, at `at_ns`."""
        is_device = flags & MEMORY_KIND_MASK == MemoryKind.DEVICE
        is_copy = kind == EventKind.COPY
        from_device = is_copy and flags >> SOURCE_KIND_SHIFT & MEMORY_KIND_MASK == MemoryKind.DEVICE
        with self._lock:
            if kind == EventKind.DEVICE_TO_HOST:
                return self._timeline.fetch(at_ns, device, size).end_ns if is_device else at_ns
            if is_device and not from_device:
                return self._timeline.send(at_ns, number, device, size).end_ns
            done = at_ns
            if from_device and not is_device:
                done = self._timeline.fetch(at_ns, device, size).end_ns
            self._timeline.arrive(done, number)
            return done


def _modelled_seconds(program: LoadableProgram, machine: Machine) -> float | None:
    try:
        module = read_wrapped_module(program.compiled.hlo)
    except WireError:
        return None
    return program_time(module, machine).total.seconds


def _position(device: DeviceFacts) -> Position:
    said = device.attributes
    return position_at(
        said.get("coords", ()), said.get("slice_index", 0), said.get("core_on_chip", 0)
    )
