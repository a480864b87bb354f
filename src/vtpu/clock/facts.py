"""What the times of a module's instructions depend on, whatever the machine. Read once."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property

from vtpu.clock.hints import Hints, hints_of
from vtpu.program.modules import Instruction, Module
from vtpu.program.trip_counts import runs, trip_count
from vtpu.program.work import Work, is_collective, work_of


class Part(StrEnum):
    """What a fusion is of a collective that the compiler spreads over several fusions."""

    START = "AsyncCollectiveStart"
    CONTINUATION = "continuation_config"
    DONE = "AsyncCollectiveDone"


class Facts:
    """A module with the work, the hints and the loops of its instructions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._work: dict[int, Work] = {}
        self._hints: dict[int, Hints] = {}
        self._parts: dict[int, Part | None] = {}

    def work(self, instruction: Instruction) -> Work:
        """What an instruction does in one run."""
        if instruction.id not in self._work:
            self._work[instruction.id] = work_of(self.module, instruction)
        return self._work[instruction.id]

    def hints(self, instruction: Instruction) -> Hints:
        """What the compiler says of it."""
        if instruction.id not in self._hints:
            self._hints[instruction.id] = hints_of(instruction)
        return self._hints[instruction.id]

    def part(self, instruction: Instruction) -> Part | None:
        """Which part of a spread collective a fusion is; None for others.

        The compiler starts such a collective in one fusion, lets the loops of others hand on its pieces
        while they compute, and ends it in a last one. Each repeats the collective in its computation.
        """
        if instruction.opcode != "fusion":
            return None
        if instruction.id not in self._parts:
            self._parts[instruction.id] = self._part(instruction)
        return self._parts[instruction.id]

    def _part(self, instruction: Instruction) -> Part | None:
        for inner in self.module.computations[instruction.called[0]].instructions:
            if inner.custom_call_target in (Part.START, Part.DONE):
                return Part(inner.custom_call_target)
        named = Part.CONTINUATION.encode() in instruction.attributes
        return Part.CONTINUATION if named else None

    def collectives(self, instruction: Instruction) -> Iterator[tuple[Instruction, bool]]:
        """The collectives that an instruction is, wraps or has fused into it.

        With each whether only a slice of its result is used where it is fused: of an all-reduce that is a
        reduce-scatter.
        """
        if is_collective(instruction):
            yield instruction, False
        elif instruction.opcode in ("async-start", "fusion"):
            for called in instruction.called:
                inside = self.module.computations[called].instructions
                for inner in inside:
                    if is_collective(inner):
                        yield inner, _is_sliced(inner, inside)

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


def _is_sliced(instruction: Instruction, around: tuple[Instruction, ...]) -> bool:
    users = [user for user in around if instruction.id in user.operands]
    return bool(users) and all(user.opcode == "dynamic-slice" for user in users)
