"""Where the memory of a compiled program goes: every buffer with what it is, the curve, the peak.

For each memory space: `total_bytes` is what the compiler sets aside, the sum of its allocations. At
any instruction a part of that is alive; the rest is free inside the heap of temporaries at that
moment. So the parts at the peak plus `free_at_peak_bytes` are the total, exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles, tree_of
from vtpu.analysis.program.live_ranges import Occupant, find_occupants
from vtpu.analysis.program.result_numbers import result_numbers
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine, UserLines
from vtpu.program.memory import AllocationKind, MemorySpace, ProgramMemory, space_name
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, layer_of, phase_of
from vtpu.program.shapes import ArrayShape, element_at

UNATTRIBUTED = "unattributed"
_COLLECTIVES = (
    "all-gather", "all-reduce", "all-to-all", "reduce-scatter", "collective-permute",
    "collective-broadcast", "ragged-all-to-all",
)  # fmt: skip
_HANDS_ON = ("bitcast", "copy", "get-tuple-element", "tuple")
_LONGEST_CHAIN = 16
_PHASE_ROLES = {
    Phase.FORWARD: Role.FORWARD,
    Phase.BACKWARD: Role.BACKWARD,
    Phase.RECOMPUTED: Role.RECOMPUTED,
    Phase.OTHER: Role.TEMP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem:
    """A piece of memory and what it is.

    `name`: the user's name of an argument, the number of a result, or the compiler's name of the
    instruction. `shape` is that of the largest buffer in it, None where the memory is no array.
    `op_name`, `layer` and `line` (the user's) are those of its source, see `sources`. `is_donated`: it
    is an argument whose memory a result takes.
    """

    occupant: Occupant
    name: str
    opcode: str
    shape: ArrayShape | None
    role: Role
    op_name: str
    layer: str
    line: SourceLine
    is_donated: bool = False

    @property
    def bytes(self) -> int:
        """Bytes that it takes, padding included."""
        return self.occupant.size

    @property
    def logical_bytes(self) -> int | None:
        """Bytes of its elements alone; None where it is no array."""
        return self.shape.logical_bytes if self.shape else None

    @property
    def padding_bytes(self) -> int | None:
        """Bytes that its tiles add; None where it is no array."""
        return None if self.shape is None else self.shape.padded_bytes - self.shape.logical_bytes

    @property
    def place(self) -> str:
        """The user's line, of an argument its tree; empty where neither is known."""
        if self.occupant.kind is AllocationKind.ARGUMENT:
            return f"argument {tree_of(self.name)}"
        return str(self.line) if self.line.line else ""

    @property
    def shape_text(self) -> str:
        """The array without its layout, `f32[8,128]`; empty where it is none."""
        return str(self.shape).partition("{")[0] if self.shape else ""

    @property
    def dtype(self) -> str:
        """The element type; `unattributed` where it is no array."""
        return self.shape.element_type.xla_name if self.shape else UNATTRIBUTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items that have something in common, at the peak."""

    key: str
    bytes: int
    padding_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpaceUsage:
    """One memory space. `live[p]` are the bytes alive at instruction p of program order.

    `by_kind` are the bytes of the allocations of each kind; they sum to `total_bytes`.
    """

    color: int
    by_kind: Mapping[AllocationKind, int]
    items: tuple[MemoryItem, ...]
    live: np.ndarray

    @property
    def total_bytes(self) -> int:
        """What the compiler sets aside in this space."""
        return sum(self.by_kind.values())

    @property
    def name(self) -> str:
        """HBM, VMEM, host ..."""
        return space_name(self.color)

    @property
    def peak(self) -> int:
        """The instruction of program order at which most is alive; 0 of an empty program."""
        return int(np.argmax(self.live)) if len(self.live) else 0

    @property
    def peak_bytes(self) -> int:
        """Bytes alive there."""
        return int(self.live[self.peak]) if len(self.live) else 0

    @property
    def free_at_peak_bytes(self) -> int:
        """What the compiler set aside and nothing uses at the peak: holes in the heap."""
        return self.total_bytes - self.peak_bytes

    def alive_at(self, position: int) -> tuple[MemoryItem, ...]:
        """What is alive at an instruction, largest first."""
        alive = [i for i in self.items if i.occupant.start <= position <= i.occupant.end]
        return tuple(sorted(alive, key=lambda i: (-i.bytes, i.name)))

    def at_peak(self) -> tuple[MemoryItem, ...]:
        """What is alive at the peak, largest first."""
        return self.alive_at(self.peak)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryUsage:
    """A program's memory by space; `order[p]` is the name of instruction p of program order."""

    module: str
    order: tuple[str, ...]
    spaces: tuple[SpaceUsage, ...]

    def space(self, color: int) -> SpaceUsage | None:
        """One memory space; None when the program has nothing there."""
        return next((s for s in self.spaces if s.color == color), None)

    @property
    def hbm(self) -> SpaceUsage | None:
        """HBM."""
        return self.space(MemorySpace.HBM)


def analyse_memory(memory: ProgramMemory, lines: UserLines | None = None) -> MemoryUsage:
    """The memory of a program, by space. `lines` finds the user's lines."""
    describe = _Describer(memory, lines or UserLines())
    order = tuple(i.name for _, i in memory.module.program_order())
    by_color: dict[int, list[MemoryItem]] = defaultdict(list)
    for occupant in find_occupants(memory):
        by_color[occupant.color].append(describe(occupant))
    sizes: dict[int, Counter[AllocationKind]] = defaultdict(Counter)
    for allocation in memory.assignment.allocations:
        sizes[allocation.color][allocation.kind] += allocation.size
    spaces = [_space(color, sizes[color], by_color[color], len(order)) for color in sorted(sizes)]
    return MemoryUsage(module=memory.module.name, order=order, spaces=tuple(spaces))


def group_by(items: Iterable[MemoryItem], key: Callable[[MemoryItem], str]) -> tuple[Group, ...]:
    """Items by a property, largest group first; where it is empty they are `unattributed`."""
    found: dict[str, list[MemoryItem]] = defaultdict(list)
    for item in items:
        found[key(item) or UNATTRIBUTED].append(item)
    groups = (
        Group(
            key=name,
            bytes=sum(i.bytes for i in members),
            padding_bytes=sum(i.padding_bytes or 0 for i in members),
            count=len(members),
        )
        for name, members in found.items()
    )
    return tuple(sorted(groups, key=lambda g: (-g.bytes, g.key)))


def _space(
    color: int, by_kind: Mapping[AllocationKind, int], items: list[MemoryItem], length: int
) -> SpaceUsage:
    change = np.zeros(max(length, 1) + 1, np.int64)
    for item in items:
        change[item.occupant.start] += item.bytes
        change[item.occupant.end + 1] -= item.bytes
    return SpaceUsage(color=color, by_kind=by_kind, items=tuple(items), live=np.cumsum(change)[:-1])


class _Describer:
    """Says of each occupant what it is."""

    def __init__(self, memory: ProgramMemory, lines: UserLines) -> None:
        self._module = memory.module
        self._buffers = memory.assignment.buffers
        self._allocations = {a.index: a for a in memory.assignment.allocations}
        self._lines = lines
        self._parameters = self._module.parameters()
        self._results = result_numbers(self._module)
        self._roles = dict(enumerate(judge_roles(_arguments(self._module, self._parameters))))

    def __call__(self, occupant: Occupant) -> MemoryItem:
        definition, shape = self._definition(occupant)
        source = source_of(self._module, definition) if definition else None
        op_name = source.op_name if source else ""
        role = self._role(occupant, definition, shape, op_name)
        line = self._lines.line(source.frames) if source else UNKNOWN_LINE
        is_argument = occupant.kind is AllocationKind.ARGUMENT
        return MemoryItem(
            occupant=occupant,
            name=self._name(occupant, definition),
            opcode=definition.opcode if definition else "",
            shape=shape,
            role=role,
            op_name=op_name,
            layer="" if is_argument else layer_of(op_name),
            line=line,
            is_donated=is_argument and self._allocations[occupant.allocation].is_live_out,
        )

    def _definition(self, occupant: Occupant) -> tuple[Instruction | None, ArrayShape | None]:
        """The instruction that names an occupant, and its array.

        Of a result the one that makes it, though its memory may hold others before; else of equally
        large buffers the first with a source.
        """
        known = [b for n in occupant.buffers if (b := self._buffers.get(n)) is not None]
        results = [b for b in known if (b.instruction, b.index) in self._results]
        if occupant.kind is AllocationKind.OUTPUT and results:
            known = results
        best: tuple[Instruction | None, ArrayShape | None] = (None, None)
        for logical in known:
            instruction = self._module.by_id.get(logical.instruction)
            if instruction is None or logical.size < known[0].size:
                continue
            found = element_at(instruction.shape, logical.index)
            shape = found if isinstance(found, ArrayShape) else None
            if best[0] is None or (not best[0].op_name and instruction.op_name):
                best = (instruction, shape or best[1])
        return best

    def _name(self, occupant: Occupant, definition: Instruction | None) -> str:
        if occupant.kind is AllocationKind.ARGUMENT:
            number = self._allocations[occupant.allocation].parameter
            if number is not None and number < len(self._parameters):
                parameter = self._parameters[number]
                return parameter.op_name or parameter.name
        if occupant.kind is AllocationKind.OUTPUT and (place := self._result(occupant)) is not None:
            return f"result{''.join(f'[{n}]' for n in place)}"
        return definition.name if definition else f"allocation {occupant.allocation}"

    def _result(self, occupant: Occupant) -> tuple[int, ...] | None:
        for buffer in occupant.buffers:
            logical = self._buffers.get(buffer)
            if logical and (logical.instruction, logical.index) in self._results:
                return self._results[logical.instruction, logical.index]
        return None

    def _role(
        self,
        occupant: Occupant,
        definition: Instruction | None,
        shape: ArrayShape | None,
        op_name: str,
    ) -> Role:
        allocation = self._allocations[occupant.allocation]
        if occupant.kind is AllocationKind.ARGUMENT:
            return self._roles.get(allocation.parameter or 0, Role.ARGUMENT)
        if occupant.kind is AllocationKind.CONSTANT:
            return Role.CONSTANT
        if occupant.kind is AllocationKind.LOCAL:
            return Role.LOCAL
        if occupant.kind is AllocationKind.OUTPUT:
            return Role.TABLE if allocation.is_tuple else Role.OUTPUT
        if definition and shape and self._is_collective(definition):
            return Role.COLLECTIVE
        return _temporary_role(definition, shape, op_name)

    def _is_collective(self, instruction: Instruction) -> bool:
        """Also a fusion whose result a collective makes."""
        for _ in range(_LONGEST_CHAIN):
            opcode = instruction.opcode.removesuffix("-start").removesuffix("-done")
            if opcode in _COLLECTIVES:
                return True
            following = self._maker(instruction)
            if following is None:
                return False
            instruction = following
        return False

    def _maker(self, instruction: Instruction) -> Instruction | None:
        """What makes the result of a fusion, or of an operation that only hands a value on."""
        if instruction.opcode == "fusion" and instruction.called:
            computation = self._module.computations.get(instruction.called[0])
            return self._module.by_id.get(computation.root) if computation else None
        if instruction.opcode in _HANDS_ON and instruction.operands:
            return self._module.by_id.get(instruction.operands[0])
        return None


def _temporary_role(definition: Instruction | None, shape: ArrayShape | None, op_name: str) -> Role:
    if definition is None:
        return Role.TEMP
    if shape is None:
        return Role.TABLE
    if definition.custom_call_target == "tpu_custom_call":
        return Role.KERNEL
    return _PHASE_ROLES[phase_of(op_name)]


def _arguments(module: Module, parameters: tuple[Instruction, ...]) -> list[Argument]:
    donated = {alias.parameter for alias in module.aliases}
    return [
        Argument(p.op_name or p.name, p.shape, number in donated)
        for number, p in enumerate(parameters)
    ]
