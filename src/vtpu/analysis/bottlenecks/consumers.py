"""Who uses a value, behind what only moves it."""

from __future__ import annotations

from collections.abc import Iterator

from vtpu.program.modules import Instruction, Module

_MOVES = frozenset({
    "add-dependency", "all-gather-done", "async-done", "async-update", "bitcast", "collective-permute-done",
    "convert", "copy", "copy-done", "copy-start", "get-tuple-element", "optimization-barrier", "reshape",
    "transpose",
})  # fmt: skip
_FARTHEST = 64  # steps: chains of moves are short, and a module of another compiler may be anything


class Consumers:
    """The users of a module's values, each computation for itself."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[int, list[tuple[Instruction, int]]] = {}
        for computation in module.computations.values():
            for user in computation.instructions:
                for number, operand in enumerate(user.operands):
                    self._users.setdefault(operand, []).append((user, number))

    def users(self, value: Instruction) -> list[tuple[Instruction, int]]:
        """The instructions that use a value, and as which of their operands."""
        return self._users.get(value.id, [])

    def moves(self, value: Instruction) -> list[Instruction]:
        """What only moves a value on."""
        found = {user.id: user for user, _ in self._all(value) if user.opcode in _MOVES}
        return list(found.values())

    def behind(self, value: Instruction) -> list[tuple[Instruction, int]]:
        """What really uses a value, behind copies and other moves of it."""
        return [(user, number) for user, number in self._all(value) if user.opcode not in _MOVES]

    def _all(self, value: Instruction) -> Iterator[tuple[Instruction, int]]:
        waiting, seen = [value], {value.id}
        for _ in range(_FARTHEST):
            if not waiting:
                return
            for user, number in self.users(waiting.pop(0)):
                yield user, number
                if user.opcode in _MOVES and user.id not in seen:
                    seen.add(user.id)
                    waiting.append(user)


def comes_from(module: Module, value: Instruction, opcodes: frozenset[str]) -> bool:
    """Whether an operation of some kinds is among those that a small value is computed from."""
    waiting, seen = [value], {value.id}
    while waiting and len(seen) < _FARTHEST:
        found = waiting.pop()
        if found.opcode in opcodes:
            return True
        new = [o for o in found.operands if o not in seen]
        seen.update(new)
        waiting += [module.by_id[o] for o in new]
    return False
