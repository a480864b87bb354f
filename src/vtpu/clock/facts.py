"""What the times of a module's instructions depend on, whatever the machine. Read once."""

from __future__ import annotations

from functools import cached_property

from vtpu.clock.hints import Hints, hints_of
from vtpu.program.modules import Instruction, Module
from vtpu.program.trip_counts import runs, trip_count
from vtpu.program.work import CollectivePart, Work, collective_in, work_of
from vtpu.reading.kernel_bodies import kernel_works


class Facts:
    """A module with the work, the hints and the loops of its instructions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._kernels = kernel_works(module)
        self._work: dict[int, Work] = {}
        self._hints: dict[int, Hints] = {}
        self._collectives: dict[int, CollectivePart | None] = {}

    def work(self, instruction: Instruction) -> Work:
        """What an instruction does in one run."""
        if instruction.id not in self._work:
            self._work[instruction.id] = work_of(self.module, instruction, self._kernels)
        return self._work[instruction.id]

    def hints(self, instruction: Instruction) -> Hints:
        """What the compiler says of it."""
        if instruction.id not in self._hints:
            self._hints[instruction.id] = hints_of(instruction)
        return self._hints[instruction.id]

    def collective(self, instruction: Instruction) -> CollectivePart | None:
        """The collective that an instruction is or has inside, and which part of it."""
        if instruction.id not in self._collectives:
            self._collectives[instruction.id] = collective_in(self.module, instruction)
        return self._collectives[instruction.id]

    @cached_property
    def runs(self) -> dict[int, float | None]:
        """How often one execution comes to each computation; None where it cannot be told."""
        return dict(runs(self.module))

    @cached_property
    def trips(self) -> dict[int, int | None]:
        """How often each loop runs."""
        loops = (
            instruction
            for computation in self.runs
            for instruction in self.module.computations[computation].instructions
            if instruction.opcode == "while"
        )
        return {loop.id: trip_count(self.module, loop) for loop in loops}
