"""The values of this process's slice: what the native core follows, and who computes it.

The part that computes needs JAX's CPU client and MLIR. It is made when a value is first looked at.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtpu.device import _core
from vtpu.device.programs import LoadableProgram
from vtpu.program.element_types import ElementType
from vtpu.reading.shardings import read_shardings
from vtpu.recording.recording import ValuesRecord
from vtpu.values.budget import NO_BUDGET, Budget, Mode, Unknown
from vtpu.values.reasons import Reasons

if TYPE_CHECKING:
    from vtpu.values.computing import Computer

_PART_OF_MEMORY, _PART_OF_DISK = 4, 2
_MOST_DEVICES = 64
_HISTORY_BYTES = 256 << 20  # a million executions of small programs


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that values may take in memory and on disk, and the folder for those."""

    memory: int
    disk: int
    folder: str


def choose_limits(memory: int | None, disk: int | None) -> Limits:
    """What was asked for; else a quarter of the memory, half of what is free for temporary files."""
    if memory is None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _PART_OF_MEMORY
    try:
        folder = tempfile.gettempdir()
        state = os.statvfs(folder)
    except OSError:  # nothing can be written anywhere
        return Limits(memory, 0, "")
    if disk is None:
        disk = state.f_bavail * state.f_frsize // _PART_OF_DISK
    return Limits(memory, disk, folder)


class Values:
    """Follows contents of arrays and computes them when the host looks.

    `note_problem` is told what the report has to say beside the reasons of single lines.
    """

    def __init__(
        self,
        mode: Mode,
        budget: Budget,
        unknown: Unknown,
        reasons: Reasons,
        note_problem: Callable[[str], None],
        limits: Limits,
        num_devices: int,
    ) -> None:
        self._reasons = reasons
        self._note_problem = note_problem
        self._mode = mode
        self._budget = budget if mode is Mode.AUTO else NO_BUDGET
        self._num_devices = min(num_devices, _MOST_DEVICES)
        self._programs: dict[int, LoadableProgram] = {}
        self._computer: Computer | None = None
        _core.follow_values(
            limits.memory,
            limits.disk,
            _HISTORY_BYTES if mode is Mode.AUTO else limits.memory,
            limits.folder,
            list(Unknown).index(unknown),
        )

    def add_program(self, number: int, program: LoadableProgram) -> None:
        """Remembers the text of a program, and forgets those that nothing refers to."""
        self._programs[number] = program
        for gone in _core.gone_programs():
            self._programs.pop(gone, None)
            if self._computer:
                self._computer.forget_program(gone)

    def compute(self, value: Any) -> None:
        """Makes a pending value known, or unknown with the reason."""
        self._made_computer().compute(value)

    def call_host(self, launch: Any, functions: Any) -> int:
        """Runs an execution with its host functions and real values; 0, or why those cannot be had."""
        return self._made_computer().call_host(launch, functions)

    def why_unknown(self, number: int) -> str:
        """What the host is told of a value that cannot be had."""
        return f"vtpu: this value is not known: {self._reasons.text(number)}"

    def describe(self) -> ValuesRecord:
        """What computing took so far."""
        *_, peak_memory, peak_disk = _core.values_state()
        done = self._computer.computed if self._computer else None
        return ValuesRecord(
            reads=done.reads if done else 0,
            executions=done.launches if done else 0,
            seconds=done.seconds if done else 0.0,
            peak_memory_bytes=peak_memory,
            peak_disk_bytes=peak_disk,
        )

    def _made_computer(self) -> Computer:
        if self._computer is None:
            from vtpu.values.computing import Computer

            self._computer = Computer(
                self._mode,
                self._budget,
                self._reasons,
                self._note_problem,
                self._num_devices,
                self._describe,
            )
        return self._computer

    def _describe(self, number: int) -> Any:
        from vtpu.values.programs import Program
        from vtpu.values.spread import Spread, parse_spread

        program = self._programs[number]
        outputs, options = program.outputs, program.options
        parameter_shardings, output_shardings = read_shardings(program.compiled.hlo)
        partitions = options.num_partitions

        def spreads(shardings: tuple[bytes, ...]) -> tuple[Spread | None, ...]:
            return tuple(parse_spread(s, partitions) for s in shardings) if partitions > 1 else ()

        return Program(
            name=program.compiled.name,
            code=program.code,
            options=program.options_data,
            num_replicas=options.num_replicas,
            num_partitions=options.num_partitions,
            num_outputs=len(outputs),
            tokens=tuple(i for i, o in enumerate(outputs) if o.element_type == ElementType.TOKEN),
            parameter_spreads=spreads(parameter_shardings),
            output_spreads=spreads(output_shardings),
        )
