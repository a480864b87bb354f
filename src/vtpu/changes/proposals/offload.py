"""Activations moved to host memory instead of kept in HBM: offload policies of `jax.checkpoint`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.proposals.checkpoint import describe, worth_trying
from vtpu.changes.rewriting.checkpoints import NotUnderstood, has_checkpoint, with_checkpoint
from vtpu.changes.rewriting.policies import (
    OFFLOADED_DOTS,
    Policy,
    checkpoint_names,
    offloaded_names,
)
from vtpu.changes.rewriting.remat_costs import costs_of, policies_for
from vtpu.changes.situation import Situation
from vtpu.changes.source.repeats import Repeat, find_repeats, group_of, program_function
from vtpu.changes.source.saved_activations import files_of, has_remat, saved_activations

KIND = "offload"
_LEAST_SHARE = 0.2  # of all activations that are kept
_MOST_REPEATS = 2


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """The results of products, or values with names, in host memory, for the repeats that keep most."""
    if situation.goal is Goal.SPEED:
        yield NotApplicable(kind=KIND, reason="it saves memory, not time")
        return
    saved = saved_activations(situation.program)
    if not saved:
        yield NotApplicable(
            kind=KIND, reason="no activations wait for the backward pass at the peak"
        )
        return
    policies = _policies(situation)
    if not policies:
        yield NotApplicable(
            kind=KIND,
            reason="the program has no products, and names no values with `checkpoint_name`",
        )
    least = _LEAST_SHARE * sum(s.bytes for s in saved)
    repeats = find_repeats(saved, situation.files, program_function(situation.program))
    there = [r for r in repeats if has_remat(situation.program) and has_checkpoint(r)]
    free = [r for r in repeats if r.bytes >= least and r not in there]
    if not free:
        yield NotApplicable(kind=KIND, reason="no repeated code without a checkpoint keeps much")
    for repeat in worth_trying(free)[:_MOST_REPEATS]:
        yield from _around(repeat, policies, situation)


def _policies(situation: Situation) -> list[Policy]:
    files = files_of(situation.program, situation.files)
    names = [n for file in files for n in checkpoint_names(file)]
    has_products = any(p.name for p in policies_for(situation.program))
    return [OFFLOADED_DOTS] * has_products + ([offloaded_names(names)] if names else [])


def _around(
    repeat: Repeat, policies: Iterable[Policy], situation: Situation
) -> Iterator[Change | NotApplicable]:
    costs = costs_of(situation.program)
    for policy in policies:
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
            caution="each step moves them to the host and back, beside what the input needs of the link",
            expected_bytes=costs.saved_bytes(repeat, policy),
            expected_s=costs.step_s(policy),
        )


PROPOSAL = Proposal(
    kind=KIND,
    what="Offload policies of `jax.checkpoint`: what the backward pass needs waits in pinned host memory.",
    applies="Activations of products, or with a name of `checkpoint_name`, are alive at the peak of HBM.",
    numerics="Equal within tolerance: the same operations, which the compiler may fuse otherwise.",
    propose=propose,
)
