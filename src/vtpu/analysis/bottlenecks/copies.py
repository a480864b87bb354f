"""Operations that compute nothing: they copy an array, mostly into another layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtpu.analysis.time.rows import OperationRow
from vtpu.program.layouts import Layout
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape

_COPIES = ("copy", "transpose")
_VIEWS = ("bitcast", "parameter", "reshape")
_HANDS_ON = ("bitcast", "get-tuple-element", "optimization-barrier")
_FARTHEST = 32  # values behind one that is copied


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCopy:
    """A copy of an array on the core.

    `source` and `target` are its shapes before and after; `argument` the user's name of the argument that
    it is, empty for another value; `is_donated` tells that this is donated. `is_of_loop`: it is copied in
    each round of a loop, or when it comes out of one.
    """

    row: OperationRow
    source: ArrayShape
    target: ArrayShape
    argument: str
    is_donated: bool
    is_of_loop: bool

    @property
    def changes_layout(self) -> bool:
        """Whether its elements stand in another order behind it."""
        return _order(self.source.layout) != _order(self.target.layout) or self._is_transposed

    @property
    def _is_transposed(self) -> bool:
        return self.source.dims != self.target.dims


def array_copies(module: Module, rows: Iterable[OperationRow]) -> Iterator[ArrayCopy]:
    """The copies among operations, other than those that only bring an array into VMEM or back."""
    for row in rows:
        source = _copied(module, row.instruction)
        if source is None or not row.seconds:
            continue
        target = row.instruction.shape
        if isinstance(source.shape, ArrayShape) and isinstance(target, ArrayShape):
            origin = _origin(module, source)
            is_argument = origin.parameter_number is not None and not _is_inside(module, row)
            found = ArrayCopy(
                row=row,
                source=source.shape,
                target=target,
                argument=(origin.op_name or origin.name) if is_argument else "",
                is_donated=origin.parameter_number in {a.parameter for a in module.aliases},
                is_of_loop=_is_inside(module, row) or origin.opcode == "while",
            )
            if found.changes_layout or _stays_in_hbm(found):
                yield found


def _copied(module: Module, instruction: Instruction) -> Instruction | None:
    """What an operation copies; None for one that does something else."""
    if instruction.opcode in _COPIES:
        return module.by_id[instruction.operands[0]]
    if instruction.opcode != "fusion" or len(instruction.operands) != 1:
        return None
    inside = module.computations[instruction.called[0]].instructions
    opcodes = {i.opcode for i in inside}
    is_copy = opcodes <= {*_COPIES, *_VIEWS} and opcodes & {*_COPIES}
    return module.by_id[instruction.operands[0]] if is_copy else None


def _stays_in_hbm(copy: ArrayCopy) -> bool:
    spaces = {copy.source.layout.memory_space, copy.target.layout.memory_space}
    return spaces == {int(MemorySpace.HBM)}


def _order(layout: Layout) -> tuple[object, ...]:
    return layout.minor_to_major, layout.tiles


def _is_inside(module: Module, row: OperationRow) -> bool:
    return row.time.computation != module.entry


def _origin(module: Module, value: Instruction) -> Instruction:
    """What makes a value that is only handed on."""
    for _ in range(_FARTHEST):
        if value.opcode not in _HANDS_ON or not value.operands:
            break
        value = module.by_id[value.operands[0]]
    return value
