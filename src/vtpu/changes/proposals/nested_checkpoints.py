"""Checkpoints on blocks of steps, for a scan over many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isqrt

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.proposals.checkpoint import describe
from vtpu.changes.rewriting.checkpoints import NotUnderstood, has_checkpoint, with_checkpoint
from vtpu.changes.rewriting.policies import NOTHING
from vtpu.changes.rewriting.remat_costs import RematCosts, costs_of
from vtpu.changes.rewriting.scans_in_blocks import OtherScan, in_blocks
from vtpu.changes.situation import Situation
from vtpu.changes.source.repeats import Repeat, RepeatKind, find_repeats, group_of, program_function
from vtpu.changes.source.saved_activations import has_remat, saved_activations

KIND = "nested-checkpoints"
_LEAST_TURNS = 16  # of fewer the blocks save little
_LEAST_SHARE = 0.1  # of all activations that are kept


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """Blocks of about the root of its steps for each long scan, with and without a checkpoint on the step."""
    saved = saved_activations(situation.program)
    repeats = find_repeats(saved, situation.files, program_function(situation.program))
    least = _LEAST_SHARE * sum(s.bytes for s in saved)
    scans = [r for r in repeats if r.kind is RepeatKind.BODY and r.bytes >= least]
    long = [r for r in scans if (r.turns or 0) >= _LEAST_TURNS]
    if not long:
        yield NotApplicable(kind=KIND, reason=_why_not(scans))
    costs = costs_of(situation.program)
    for repeat in long:
        is_there = has_remat(situation.program) and has_checkpoint(repeat)
        yield from _blocks(repeat, costs, is_there=is_there)


def _blocks(
    repeat: Repeat, costs: RematCosts, *, is_there: bool
) -> Iterator[Change | NotApplicable]:
    turns = repeat.turns or 1
    try:
        blocks = in_blocks(repeat)
        steps = () if is_there else with_checkpoint(repeat, NOTHING)
    except (OtherScan, NotUnderstood) as reason:
        yield NotApplicable(kind=KIND, reason=f"{describe(repeat)}: {reason}")
        return
    size = isqrt(turns)
    of_steps = repeat.bytes // turns
    for edits, kept, what in (
        (blocks, size + turns // size, ""),
        ((*blocks, *steps), 3, " and step"),
    ):
        if edits is blocks or steps:
            yield Change(
                kind=KIND,
                title=f"checkpoint blocks of {size} steps{what} of {describe(repeat)}",
                numerics=Numerics.TOLERANCE,
                edits=edits,
                group=group_of(repeat),
                expected_bytes=repeat.bytes - of_steps * kept,
                expected_s=costs.step_s(NOTHING),
            )


def _why_not(scans: list[Repeat]) -> str:
    if not scans:
        return "no scan keeps much for the backward pass"
    most = max(r.turns or 0 for r in scans)
    return f"the scans have up to {most} steps, which one checkpoint on the step is enough for"


PROPOSAL = Proposal(
    kind=KIND,
    what="A scan over many steps in blocks of about the root of them, with a checkpoint on each block.",
    applies=f"A `jax.lax.scan` of at least {_LEAST_TURNS} steps keeps activations at the peak of HBM.",
    numerics="Equal within tolerance: the same operations, which the compiler may fuse otherwise.",
    propose=propose,
)
