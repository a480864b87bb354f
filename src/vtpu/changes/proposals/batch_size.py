"""Smaller batches, so that a program fits; larger ones, so that a step does more for its time."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from vtpu.changes.change import ArgumentChange, Change, NotApplicable, Numerics
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.constants import Written, number_for
from vtpu.changes.source.state import Batch, State, find_batch, read_state
from vtpu.changes.source.user_files import user_files

KIND = "batch-size"
_FACTORS = {
    Goal.FIT: ((1, 2), (1, 4), (1, 8)),
    Goal.SPEED: ((3, 2), (2, 1), (4, 1)),
    Goal.MEMORY: (),
}
_WORDS = ("batch", "rows", "bs", "examples")


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """A half, a fourth and an eighth where the program does not fit; up to four times as much for speed."""
    factors = _FACTORS[situation.goal]
    if not factors:
        yield NotApplicable(
            kind=KIND, reason="a smaller batch does less; ask for it with `--goal fit`"
        )
        return
    state = read_state(situation)
    batch = find_batch(state) if state else "the program has no arguments that are known"
    if state is None or isinstance(batch, str):
        yield NotApplicable(kind=KIND, reason=str(batch))
        return
    number = _written(situation, state, batch) if situation.target.is_script else None
    if isinstance(number, str):
        yield NotApplicable(kind=KIND, reason=number)
        return
    sizes = [
        batch.size * up // down for up, down in factors if batch.size * up % (down * batch.cut) == 0
    ]
    if not sizes:
        yield NotApplicable(kind=KIND, reason=f"a batch of {batch.size} on {batch.cut} devices has no other size near")  # fmt: skip
    for size in dict.fromkeys(s for s in sizes if s):
        yield from _change(situation, batch, number, size)


def _change(
    situation: Situation, batch: Batch, number: Written | None, size: int
) -> Iterable[Change]:
    work = size / batch.size
    if number is not None and number.value * size % batch.size:
        return  # the number in the source is a part of the batch that does not divide
    step, need = situation.program.step_s, situation.program.report.need_bytes
    arrays = batch.arrays if number is None else ()
    yield Change(
        kind=KIND,
        title=f"a batch of {size} instead of {batch.size}",
        numerics=Numerics.DIFFERENT,
        edits=() if number is None else (number.changed(number.value * size // batch.size),),
        arguments=tuple(ArgumentChange(path=a.path, axis=0, size=size) for a in arrays),
        advice="" if number else f"give {', '.join(batch.trees)} {size} rows",
        group=KIND,
        caution="a step sees another number of examples: the learning rate and the number of steps may have to follow",
        expected_bytes=(1 - work) * (need or 0) / 2,
        expected_s=step * (1 - 1 / work) / 8 if step is not None and work > 1 else None,
        work=work,
    )


def _written(situation: Situation, state: State, batch: Batch) -> Written | str:
    """The number in the source that is the batch: of all devices, of one, or of a host."""
    devices = prod(size for _, size in state.mesh) or 1
    shares = [batch.size, batch.size // batch.cut, batch.size // devices]
    shares += [batch.size // situation.slice.num_hosts]
    found = number_for(user_files(situation), [s for s in dict.fromkeys(shares) if s > 1], _WORDS)
    if isinstance(found, str):
        return f"where the batch of {batch.size} is written was not found: {found}"
    if any(found.name in given for given in situation.target.script_arguments if found.name):
        return f"the batch is given as the script's argument {found.name}: give it another one"
    return found


PROPOSAL = Proposal(
    kind=KIND,
    what="Smaller batches where the program does not fit, larger ones with `--goal speed`.",
    applies="The batch among the arguments can be told; of a script also the number in the source that is its "
    "size, under a name (a constant, a default, an option).",
    numerics="Different by design: a step sees more or fewer examples. Times are compared for the same work.",
    propose=propose,
)
