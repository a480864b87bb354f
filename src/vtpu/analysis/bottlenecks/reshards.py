"""Collectives that only bring arrays into another sharding, and that a program can hardly have meant.

* REMATERIALISED: an array is gathered whole on every device, and each then takes its own part of it. The
  partitioner does so where it knows no direct exchange between two shardings, with or without a warning.
* FOR_HOST: an array is gathered whole on every device, only to be handed to the host.
* BATCH: the batch comes in parts, one for each device, and what is computed from it goes over the links
  as a whole: layers have lost its sharding.
* STATE: a donated argument comes back in another sharding than it was given in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from vtpu.analysis.bottlenecks.consumers import Consumers, comes_from
from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.pieces import Piece, are_of_parameters, pieces_of
from vtpu.analysis.time.report import TimeReport
from vtpu.analysis.time.rows import OperationRow
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.work import CollectivePart, collective_in
from vtpu.program.work.traffic import padded_bytes, taken_by
from vtpu.reading.messages.others import FullRematerialization
from vtpu.reading.messages.read import read_messages

_WARNING = "Involuntary full rematerialization"
_OWN_NUMBER = frozenset({"partition-id", "replica-id"})
_TO_HOST = ("send", "outfeed")
_SMALL_SHARE = 0.5  # of an array: who takes more of it may well want it whole
_FARTHEST = 32  # values between a collective and the result that it becomes


class Cause(StrEnum):
    """Why a collective is there."""

    REMATERIALISED = "rematerialised"
    FOR_HOST = "for the host"
    BATCH = "batch"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshard:
    """A collective that no computation needs.

    `seconds` of each execution: what the core waits for it, and what it copies around it. `whole_bytes`
    are those of the larger of what goes in and comes out, on one device; `around` the instructions that
    copy it. `warning` is the compiler's,
    `argument` what comes with a sharding that is then left, `result` the one in which it is returned.
    """

    cause: Cause
    row: OperationRow
    seconds: float
    whole_bytes: int
    devices: int
    around: frozenset[int]
    warning: FullRematerialization | None = None
    argument: Piece | None = None
    result: Piece | None = None


def find_reshards(module: Module, time: TimeReport, log: str) -> tuple[Reshard, ...]:
    """The collectives of a program that it can hardly have meant, the longest first."""
    search = _Search(module, time, log)
    found = (search.judge(row) for row in time.rows if row.is_communication)
    return tuple(sorted((f for f in found if f), key=lambda f: -f.seconds))


class _Search:
    def __init__(self, module: Module, time: TimeReport, log: str) -> None:
        self._module = module
        self._consumers = Consumers(module)
        self._seconds = {row.instruction.id: row.seconds for row in time.rows}
        self._warnings = _warnings(log)
        self._arguments, self._results = pieces_of(module)

    def judge(self, row: OperationRow) -> Reshard | None:
        """What a collective is there for, where it is one of the causes."""
        part = collective_in(self._module, row.instruction)
        if part is None:
            return None
        users = self._consumers.behind(row.instruction)
        if row.kind == "all-gather" and users and all(u.opcode in _TO_HOST for u, _ in users):
            return self._found(Cause.FOR_HOST, row, part)
        warning = self._warnings.get(row.op_name)
        if row.kind == "all-gather" and (warning or self._is_cut_again(users)):
            return self._found(Cause.REMATERIALISED, row, part, warning=warning)
        if pair := self._changed_states.get(row.instruction.id):
            return self._found(Cause.STATE, row, part, argument=pair[0], result=pair[1])
        if batch := self._batch_of(part):
            return self._found(Cause.BATCH, row, part, argument=batch)
        return None

    def _found(
        self,
        cause: Cause,
        row: OperationRow,
        part: CollectivePart,
        *,
        warning: FullRematerialization | None = None,
        argument: Piece | None = None,
        result: Piece | None = None,
    ) -> Reshard:
        around = self._consumers.moves(row.instruction)
        if cause is Cause.REMATERIALISED:
            around += [user for user, _ in self._consumers.behind(row.instruction)]
        numbers = frozenset(i.id for i in around)
        groups = part.collective.collective.groups if part.collective.collective else ()
        return Reshard(
            cause=cause,
            row=row,
            seconds=row.seconds + sum(self._seconds.get(number, 0.0) for number in numbers),
            around=numbers,
            whole_bytes=max(padded_bytes(part.result), *map(padded_bytes, self._given(part))),
            devices=len(groups[0]) if groups else len(self._module.devices),
            warning=warning,
            argument=argument,
            result=result,
        )

    def _given(self, part: CollectivePart) -> list[Shape]:
        return [self._module.by_id[o].shape for o in part.collective.operands] or [None]

    # ---- gathered, and cut again ----------------------------------------------------------------

    def _is_cut_again(self, users: Sequence[tuple[Instruction, int]]) -> bool:
        return bool(users) and all(self._takes_own_part(user, number) for user, number in users)

    def _takes_own_part(self, user: Instruction, number: int) -> bool:
        """Whether a device takes of a value only the part that its own number says."""
        inside = self._inside(user)
        if user.opcode not in ("dynamic-slice", "fusion") or any(
            i.opcode == "gather" for i in inside
        ):
            return False
        taken = taken_by(self._module, user, number)
        whole = padded_bytes(self._module.by_id[user.operands[number]].shape)
        if taken is None or taken > _SMALL_SHARE * whole:
            return False
        others = [self._module.by_id[o] for n, o in enumerate(user.operands) if n != number]
        return any(i.opcode in _OWN_NUMBER for i in inside) or any(
            comes_from(self._module, other, _OWN_NUMBER) for other in others
        )

    def _inside(self, user: Instruction) -> tuple[Instruction, ...]:
        called = user.called if user.opcode == "fusion" else ()
        return tuple(i for c in called for i in self._module.computations[c].instructions)

    # ---- the batch as a whole -------------------------------------------------------------------

    def _batch_of(self, part: CollectivePart) -> Piece | None:
        """The batch that comes in parts, and that a collective has as a whole."""
        groups = part.collective.collective.groups if part.collective.collective else ()
        size = len(groups[0]) if groups else len(self._module.devices)
        given = [s.dims for s in map(_array, self._given(part)) if s]
        for batch in self._batches:
            whole, own = (batch.whole or (0,))[0], batch.shape.dims[0]
            moved = _ranked(given if part.kind == "reduce-scatter" else _dims(part))
            is_whole = (
                bool(moved)
                and moved[0][0] == whole
                and not are_of_parameters(moved[0], self._arguments)
            )
            gathers = part.kind != "all-gather" or any(dims[0] == own for dims in _ranked(given))
            if is_whole and gathers and size >= (batch.parts or (1,))[0]:
                return batch
        return None

    @cached_property
    def _batches(self) -> list[Piece]:
        """Arguments of the batch that are cut along it."""
        return [a for a in self._arguments if a.role is Role.BATCH and a.parts and a.parts[0] > 1]

    # ---- a state that comes back otherwise ------------------------------------------------------

    @cached_property
    def _changed_states(self) -> dict[int, tuple[Piece, Piece]]:
        """By collective the donated argument and the result that it changes the sharding of."""
        result = self._module.result()
        values = (
            result.operands
            if result and result.opcode == "tuple"
            else (result.id,)
            if result
            else ()
        )
        found: dict[int, tuple[Piece, Piece]] = {}
        for argument, returned in self._changed():
            if returned.number < len(values):
                value = self._module.by_id[values[returned.number]]
                found |= dict.fromkeys(self._collectives_behind(value), (argument, returned))
        return found

    def _changed(self) -> Iterator[tuple[Piece, Piece]]:
        """Donated arguments and results of one shape, of which all have other shardings."""
        donated = {alias.parameter for alias in self._module.aliases}
        given = [a for a in self._arguments if a.number in donated and a.whole]
        counts = Counter(_kind(a) for a in given), Counter(_kind(r) for r in self._results)
        for result in self._results:
            same = [a for a in given if _kind(a) == _kind(result)]
            is_paired = counts[0][_kind(result)] == counts[1][_kind(result)]
            if same and is_paired and all(a.parts != result.parts for a in same):
                yield same[0], result

    def _collectives_behind(self, value: Instruction) -> list[int]:
        """The collectives that a result comes from, each with as many elements as it."""
        waiting, seen, found = [value], {value.id}, list[int]()
        while waiting and len(seen) < _FARTHEST:
            instruction = waiting.pop(0)
            if collective_in(self._module, instruction):
                found.append(instruction.id)
                continue
            new = [o for o in instruction.operands if o not in seen]
            seen.update(new)
            size = _elements(instruction.shape)
            waiting += [i for o in new if _elements((i := self._module.by_id[o]).shape) == size]
        return found


def _warnings(log: str) -> dict[str, FullRematerialization]:
    """The compiler's warnings by JAX's path of the operation."""
    if _WARNING not in log:
        return {}
    found = (m for m in read_messages(log).found if isinstance(m, FullRematerialization))
    return {name: m for m in found if (name := m.operator.op_name)}


def _kind(piece: Piece) -> tuple[object, ...]:
    return piece.shape.element_type, piece.whole


def _array(shape: Shape) -> ArrayShape | None:
    return next((s for _, s in leaves(shape) if isinstance(s, ArrayShape)), None)


def _dims(part: CollectivePart) -> list[tuple[int, ...]]:
    return [s.dims for _, s in leaves(part.result) if isinstance(s, ArrayShape)]


def _ranked(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those of at least two dimensions: what is computed for each example is more than a number."""
    return [dims for dims in shapes if len(dims) > 1]


def _elements(shape: Shape) -> int:
    """How many elements an array has; of a start and the like the last of its arrays."""
    arrays = [s for _, s in leaves(shape) if isinstance(s, ArrayShape)]
    size = 1
    for n in arrays[-1].dims if arrays else (0,):
        size *= n
    return size
