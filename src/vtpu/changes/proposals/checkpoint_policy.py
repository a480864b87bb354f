"""Another policy for a checkpoint that is there, or none: what it keeps against what it computes again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.checkpoints import Checkpoint, checkpoints_in
from vtpu.changes.rewriting.policies import NAMED, Policy
from vtpu.changes.rewriting.remat_costs import policies_for
from vtpu.changes.situation import Situation
from vtpu.changes.source.saved_activations import (
    files_of,
    has_remat,
    recomputed_s,
    saved_activations,
)

KIND = "checkpoint-policy"
_MOST = 3  # checkpoints
_ORDER = [p.name for p in NAMED]


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each checkpoint the policies that serve the goal: that keep less, or for speed that keep more."""
    program = situation.program
    if not has_remat(program):
        yield NotApplicable(
            kind=KIND, reason="the program computes nothing again: it has no checkpoint"
        )
        return
    files = files_of(program, situation.files)
    found = [c for file in files for c in checkpoints_in(file)]
    if not found:
        yield NotApplicable(
            kind=KIND, reason="the checkpoint is in none of the program's own files"
        )
    policies = policies_for(program)
    for checkpoint in found[:_MOST]:
        yield from _others(checkpoint, policies, situation)


def _others(
    checkpoint: Checkpoint, policies: Iterable[Policy], situation: Situation
) -> Iterator[Change | NotApplicable]:
    is_for_speed = situation.goal is Goal.SPEED
    group = f"checkpoint {checkpoint.file.name}:{checkpoint.node.lineno}"
    wanted = [p for p in policies if _serves(p, checkpoint.policy_name, is_for_speed=is_for_speed)]
    saved = sum(s.bytes for s in saved_activations(situation.program))
    again = recomputed_s(situation.program)
    sign = 1 if is_for_speed else -1
    for policy in wanted:
        yield Change(
            kind=KIND,
            title=f"the checkpoint of {checkpoint.what} keeps {policy.keeps}",
            numerics=Numerics.TOLERANCE,
            edits=checkpoint.with_policy(policy),
            group=group,
            expected_bytes=-sign * saved if saved else None,
            expected_s=sign * again / 2 if again else None,
        )
    removed = checkpoint.removed() if is_for_speed else None
    if removed:
        yield Change(
            kind=KIND,
            title=f"no checkpoint around {checkpoint.what}",
            numerics=Numerics.TOLERANCE,
            edits=removed,
            group=group,
            caution="the activations are kept: HBM has to have room for them",
            expected_s=again,
        )
    if not wanted and not removed:
        reason = f"the checkpoint of {checkpoint.what} keeps as little as a named policy can"
        yield NotApplicable(kind=KIND, reason=reason)


def _serves(policy: Policy, there: str, *, is_for_speed: bool) -> bool:
    """Whether a policy keeps more than what is there, for speed, or less; of an unknown one it may."""
    if there not in _ORDER:
        return True
    now, new = _ORDER.index(there), _ORDER.index(policy.name)
    return new > now if is_for_speed else new < now


PROPOSAL = Proposal(
    kind=KIND,
    what="Another of JAX's named policies for a checkpoint that is there; for speed also none at all.",
    applies="The program computes parts of its forward pass again.",
    numerics="Equal within tolerance: the same operations, which the compiler may fuse otherwise.",
    propose=propose,
)
