"""Arguments that could be donated and are not, and arguments that are donated in vain.

An output can take the memory of an argument of the same shape, type and layout. Whether the argument is needed
after the call is not in the program: where it was only compiled, an argument counts that the program
updates and whose name, or what else the program does, says that it is state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.memory import MemoryItem, MemoryUsage
from vtpu.analysis.program.updates import updated_parameters
from vtpu.program.memory import AllocationKind, ProgramMemory
from vtpu.program.modules import Module
from vtpu.program.op_names import Phase, phase_of

STATE = (Role.PARAMETER, Role.OPTIMIZER, Role.CACHE)
"""Roles of what a program that updates it has no more use for."""

_UNLIKELY = (Role.BATCH, Role.KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a program in HBM. `number`: of the entry parameter. `is_updated`: a result is its new
    value.
    """

    item: MemoryItem
    number: int
    is_updated: bool


class Mismatch(StrEnum):
    """Why an output cannot take a donated argument's memory."""

    NOTHING = "no output is like it"
    GROWS = "the output is larger in one dimension"
    SHARDING = "the output is sharded otherwise"
    TYPE = "the output has another element type"
    LAYOUT = "the output has another layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """An argument that was to be donated and whose memory no output takes; the output that is nearest to it."""

    argument: Argument
    mismatch: Mismatch
    output: MemoryItem | None


def arguments_of(memory: ProgramMemory, usage: MemoryUsage) -> tuple[Argument, ...]:
    """The arguments in HBM."""
    parameters = {a.index: a.parameter for a in memory.assignment.allocations}
    updated = updated_parameters(memory.module)
    found: list[Argument] = []
    for item in usage.hbm.items if usage.hbm else ():
        number = parameters.get(item.occupant.allocation)
        if item.occupant.kind is AllocationKind.ARGUMENT and number is not None:
            found.append(Argument(item=item, number=number, is_updated=number in updated))
    return tuple(found)


def could_be_donated(
    memory: ProgramMemory,
    usage: MemoryUsage,
    asked: Collection[int],
    dies: Callable[[Argument], bool] | None = None,
) -> tuple[Argument, ...]:
    """The arguments whose memory an output could take, each output once; `asked` are to be donated anyhow.

    `dies`: whether a run shows that nothing needs an argument after the call.
    """
    arguments = arguments_of(memory, usage)
    judge = dies or _Judge(memory.module, arguments)
    free = [a for a in arguments if not a.item.is_donated and a.number not in asked]
    free.sort(key=_unlikeliness)
    outputs: dict[tuple[str, int], int] = defaultdict(int)
    for item in _outputs(usage):
        outputs[str(item.shape), item.bytes] += 1
    found: list[Argument] = []
    for argument in free:
        key = (str(argument.item.shape), argument.item.bytes)
        if outputs[key] and argument.item.role is not Role.KEY and judge(argument):
            outputs[key] -= 1
            found.append(argument)
    return tuple(sorted(found, key=lambda a: a.number))


def unusable_donations(
    memory: ProgramMemory, usage: MemoryUsage, asked: Collection[int], *, is_spread: bool
) -> tuple[Unusable, ...]:
    """The arguments that were to be donated and keep their memory, largest first.

    `is_spread`: the program is for more than one device, so that shapes differ with shardings.
    """
    left = [a for a in arguments_of(memory, usage) if a.number in asked and not a.item.is_donated]
    outputs = list(_outputs(usage))
    found: list[Unusable] = []
    for argument in sorted(left, key=lambda a: -a.item.bytes):
        mismatch, output = _nearest(argument.item, outputs, is_spread=is_spread)
        if output is not None:
            outputs.remove(output)
        found.append(Unusable(argument=argument, mismatch=mismatch, output=output))
    return tuple(found)


def _outputs(usage: MemoryUsage) -> list[MemoryItem]:
    """The results that have memory of their own."""
    items = usage.hbm.items if usage.hbm else ()
    return [
        i for i in items if i.occupant.kind is AllocationKind.OUTPUT and i.shape and i.shape.dims
    ]


def _unlikeliness(argument: Argument) -> tuple[bool, bool, int]:
    role = argument.item.role
    return role in _UNLIKELY, role not in STATE, argument.number


class _Judge:
    """Whether an argument is state that the program updates, by all that the program alone tells."""

    def __init__(self, module: Module, arguments: tuple[Argument, ...]) -> None:
        is_training = any(phase_of(i.op_name) is Phase.BACKWARD for i in module.by_id.values())
        has_state = any(a.is_updated and a.item.role in STATE for a in arguments)
        self._knows_state = is_training or has_state

    def __call__(self, argument: Argument) -> bool:
        role = argument.item.role
        if not argument.is_updated or role in _UNLIKELY:
            return False
        return role in STATE or self._knows_state


# ---- what is not alike -------------------------------------------------------------------------


def _nearest(
    argument: MemoryItem, outputs: list[MemoryItem], *, is_spread: bool
) -> tuple[Mismatch, MemoryItem | None]:
    """Why no output takes an argument's memory, by the output that is most like it."""
    for mismatch, is_like in _LIKENESSES:
        if mismatch is not Mismatch.SHARDING or is_spread:
            for output in outputs:
                if is_like(argument, output):
                    return mismatch, output
    return Mismatch.NOTHING, None


def _has_another_layout(argument: MemoryItem, output: MemoryItem) -> bool:
    return _dims(argument) == _dims(output) and argument.dtype == output.dtype


def _has_another_type(argument: MemoryItem, output: MemoryItem) -> bool:
    return _dims(argument) == _dims(output) and argument.dtype != output.dtype


def _is_sharded_otherwise(argument: MemoryItem, output: MemoryItem) -> bool:
    """Whether in every dimension one is a multiple of the other: pieces of one array, cut otherwise."""
    pairs = _pairs(argument, output)
    return bool(pairs) and all(a and b and max(a, b) % min(a, b) == 0 for a, b in pairs)


def _grows(argument: MemoryItem, output: MemoryItem) -> bool:
    """Whether an output is an argument with more behind it, as a cache to which a row is appended."""
    other = [(a, b) for a, b in _pairs(argument, output) if a != b]
    is_longer = len(other) == 1 and 0 < other[0][0] < other[0][1]
    return is_longer and output.op_name.rpartition("/")[2] in _APPENDING


def _pairs(argument: MemoryItem, output: MemoryItem) -> list[tuple[int, int]]:
    """Their dimensions side by side; none where ranks or types differ."""
    ours, theirs = _dims(argument), _dims(output)
    is_like = len(ours) == len(theirs) and argument.dtype == output.dtype
    return list(zip(ours, theirs, strict=True)) if is_like else []


def _dims(item: MemoryItem) -> tuple[int, ...]:
    return item.shape.dims if item.shape else ()


_APPENDING = ("concatenate", "pad")
_LIKENESSES = (
    (Mismatch.LAYOUT, _has_another_layout),
    (Mismatch.TYPE, _has_another_type),
    (Mismatch.GROWS, _grows),
    (Mismatch.SHARDING, _is_sharded_otherwise),
)
