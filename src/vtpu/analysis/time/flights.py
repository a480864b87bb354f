"""What is in flight beside the core: begun by one instruction, waited for by another."""

from __future__ import annotations

from vtpu.program.modules import Instruction, Module
from vtpu.program.work import CollectivePart, Part, collective_in


class Flights:
    """Follows asynchronous operations through a computation, instruction by instruction."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._started: dict[int, int] = {}

    def begin(self, instruction: Instruction) -> bool:
        """Whether an instruction only starts something, which is in flight from here on."""
        part = self._part(instruction)
        is_start = instruction.opcode.endswith("-start") or (
            part is not None and part.part is Part.START
        )
        if is_start:
            self._started[instruction.id] = instruction.id
        return is_start

    def end(self, instruction: Instruction) -> list[int]:
        """The starts that an instruction waits for. What it only moves on gets its name."""
        if not self._started:
            return []
        sources = {self._source(operand) for operand in instruction.operands}
        flying = [s for s in sources if s in self._started and s != instruction.id]
        if not flying:
            return []
        part = self._part(instruction)
        role = part.part if part else None
        if role is Part.DONE or instruction.opcode.endswith("-done"):
            return [self._started.pop(source) for source in flying]
        if role is Part.CONTINUED or instruction.opcode.endswith("-update"):
            self._started[instruction.id] = self._started.pop(flying[0])
        return []

    def _part(self, instruction: Instruction) -> CollectivePart | None:
        return collective_in(self._module, instruction)

    def _source(self, number: int) -> int:
        """The instruction that makes a value, behind the tuples that it is handed on in."""
        instruction = self._module.by_id[number]
        while instruction.opcode == "get-tuple-element":
            instruction = self._module.by_id[instruction.operands[0]]
        return instruction.id
