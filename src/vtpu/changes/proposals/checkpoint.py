"""Activations computed again instead of kept: `jax.checkpoint` around repeated code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.checkpoints import NotUnderstood, has_checkpoint, with_checkpoint
from vtpu.changes.policies import NAMED
from vtpu.changes.proposal import Proposal
from vtpu.changes.remat_costs import RematCosts, costs_of
from vtpu.changes.repeats import Repeat, RepeatKind, find_repeats, group_of, program_function
from vtpu.changes.saved_activations import saved_activations
from vtpu.changes.situation import Situation

KIND = "checkpoint"
_MOST_REPEATS = 4  # by the activations that are made in them
_LEAST_SHARE = 0.1  # of all that is kept


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """A checkpoint around each repeat that leaves much behind, with each named policy."""
    saved = saved_activations(situation.program)
    if not saved:
        yield NotApplicable(
            kind=KIND, reason="no activations wait for the backward pass at the peak"
        )
        return
    least = _LEAST_SHARE * sum(s.bytes for s in saved)
    repeats = find_repeats(saved, situation.files, program_function(situation.program))
    chosen = [r for r in repeats if r.bytes >= least and not has_checkpoint(r)][:_MOST_REPEATS]
    if not chosen:
        yield NotApplicable(kind=KIND, reason=_nothing_found(repeats, saved[0].place))
    costs = costs_of(situation.program)
    for repeat in chosen:
        yield from _around(repeat, costs)


def _around(repeat: Repeat, costs: RematCosts) -> Iterator[Change | NotApplicable]:
    for policy in NAMED:
        try:
            edits = with_checkpoint(repeat, policy)
        except NotUnderstood as reason:
            yield NotApplicable(kind=KIND, reason=f"{describe(repeat)}: {reason}")
            return
        yield Change(
            kind=KIND,
            title=f"checkpoint {describe(repeat)}, keeping {policy.keeps}",
            numerics=Numerics.TOLERANCE,
            edits=edits,
            group=group_of(repeat),
            expected_bytes=costs.saved_bytes(repeat, policy),
            expected_s=costs.step_s(policy),
        )


def describe(repeat: Repeat) -> str:
    """A repeat in the program's own names."""
    file = repeat.file
    if repeat.kind is RepeatKind.BODY:
        name = file.source(repeat.body).partition("\n")[0] if repeat.body else "the scanned module"
        return f"{name} in the scan of line {repeat.line}"
    if repeat.kind is RepeatKind.LOOP:
        return f"each turn of the loop of line {repeat.line}"
    calls = list(
        dict.fromkeys(file.source(s.node.func) for s in repeat.sites if hasattr(s.node, "func"))
    )
    lines = ", ".join(dict.fromkeys(str(s.node.lineno) for s in repeat.sites))
    return f"{' and '.join(calls)} (line {lines})"


def _nothing_found(repeats: list[Repeat], place: str) -> str:
    there = [r for r in repeats if has_checkpoint(r)]
    if there:
        return f"there is a checkpoint around {describe(there[0])} already"
    return (
        f"no loop, scan or repeated call leads to {place}, where most of the activations are made"
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="`jax.checkpoint` around bodies of scans, blocks called in loops and whole turns of loops, with "
    "each of JAX's named policies.",
    applies="Activations of the forward pass are alive at the peak of HBM, and are made in code that "
    "repeats.",
    numerics="Equal within tolerance: the same operations, which the compiler may fuse otherwise.",
    propose=propose,
)
