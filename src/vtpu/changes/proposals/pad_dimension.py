"""Dimensions of weights rounded up to what fills tiles: vocabularies, hidden sizes."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import Role
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.constants import Written, written_numbers
from vtpu.changes.source.user_files import user_files
from vtpu.program.memory import AllocationKind

KIND = "pad-dimension"
_TILE = 128  # lanes, and the edge of the matrix units (256 from v6e on)
_MOST_LARGER = 1.10  # a larger one is another model
_WEIGHTS = (Role.PARAMETER, Role.OPTIMIZER)


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change for each number in the source that is such a dimension and stands there once."""
    wanted = {size: bytes_ for size, bytes_ in _dimensions(situation).items() if _rounded(size)}
    if not wanted:
        yield NotApplicable(
            kind=KIND, reason="no weight has a dimension a little below a multiple of 128"
        )
        return
    numbers = [w for file in user_files(situation) for w in written_numbers(file)]
    for size, bytes_ in wanted.items():
        named = [w for w in numbers if w.value == size]
        if len(named) == 1:
            yield _change(named[0], _rounded(size), bytes_)
        else:
            found = ", ".join(f"{w.name} (line {w.node.lineno})" for w in named) or "no name"
            yield NotApplicable(
                kind=KIND,
                reason=f"{found} has the number {size}: make it {_rounded(size)} where it is set",
            )


def _dimensions(situation: Situation) -> dict[int, int]:
    """The dimensions of weights, whole and on each device, with the bytes of the arrays that have them."""
    usage = situation.program.report.usage
    items = usage.hbm.items if usage and usage.hbm else ()
    found: dict[int, int] = {}
    for item in items:
        if item.occupant.kind is AllocationKind.ARGUMENT and item.role in _WEIGHTS and item.shape:
            for size in item.shape.dims:
                found[size] = found.get(size, 0) + item.bytes
    for leaf in situation.arguments:
        if leaf.role in _WEIGHTS:
            found.update({size: found.get(size, 0) for size in leaf.shape})
    return found


def _rounded(size: int) -> int:
    """The next multiple of a tile; 0 where it is one already, or much larger."""
    rounded = -(-size // _TILE) * _TILE
    return rounded if size != rounded <= _MOST_LARGER * size else 0


def _change(number: Written, rounded: int, bytes_: int) -> Change:
    return Change(
        kind=KIND,
        title=f"{number.name} = {rounded} instead of {number.value}",
        numerics=Numerics.DIFFERENT,
        edits=(number.changed(rounded),),
        group=f"{KIND} {number.name}",
        caution="weights get further rows or columns: checkpoints have to be padded, and entries of a vocabulary "
        "that stand for no token masked",
        expected_bytes=-bytes_ * (rounded / number.value - 1),
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="Dimensions of weights (a vocabulary, a hidden size) rounded up to the next multiple of 128.",
    applies="A weight has a dimension up to 10 % below a multiple of 128, and one number in the source gives it.",
    numerics="Different by design: the model is a little larger.",
    propose=propose,
)
