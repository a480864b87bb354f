"""Activations computed again instead of kept: `jax.checkpoint` around repeated code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.checkpoints import (
    NotUnderstood,
    checkpoint_around,
    has_checkpoint,
    is_made_by_checkpoint,
    with_checkpoint,
)
from vtpu.changes.rewriting.policies import Policy
from vtpu.changes.rewriting.remat_costs import RematCosts, costs_of, policies_for
from vtpu.changes.situation import Situation
from vtpu.changes.source.differentiation import gradient_at, gradient_of
from vtpu.changes.source.repeats import Repeat, RepeatKind, find_repeats, group_of, program_function
from vtpu.changes.source.saved_activations import Saved, has_remat, saved_activations

KIND = "checkpoint"
_MOST_REPEATS = 4  # by the activations that are made in them
_LEAST_SHARE = 0.1  # of all that is kept
_NEARLY_ALL = 0.95
_LONGEST = 60  # letters


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
    there = [r for r in repeats if has_remat(situation.program) and has_checkpoint(r)]
    chosen = worth_trying([r for r in repeats if r.bytes >= least and r not in there])
    if not chosen:
        yield NotApplicable(kind=KIND, reason=_nothing_found(there, saved[0].place))
    costs, policies = costs_of(situation.program), policies_for(situation.program)
    for repeat in chosen:
        yield from _around(repeat, policies, costs)
    keeping = [p for p in policies if p.name]
    yield from _around_loss(saved, situation, keeping[:1], costs)


def worth_trying(repeats: Sequence[Repeat]) -> list[Repeat]:
    """The repeats with most activations. A call is as good as the whole turn of its loop, where they are
    nearly all made in it.
    """
    called = {id(r.loop): r.bytes for r in repeats if r.kind is RepeatKind.CALL and r.loop}
    chosen = [
        r
        for r in repeats
        if r.kind is not RepeatKind.LOOP or called.get(id(r.loop), 0) < _NEARLY_ALL * r.bytes
    ]
    return chosen[:_MOST_REPEATS]


def _around(
    repeat: Repeat, policies: Iterable[Policy], costs: RematCosts
) -> Iterator[Change | NotApplicable]:
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
            expected_bytes=costs.saved_bytes(repeat, policy),
            expected_s=costs.step_s(policy),
        )


def _around_loss(
    saved: Sequence[Saved], situation: Situation, policies: Iterable[Policy], costs: RematCosts
) -> Iterator[Change]:
    """A checkpoint on all that is differentiated. One that keeps nothing would only do all of it twice."""
    program = program_function(situation.program)
    inside = (gradient_of(s, situation.files, program) for s in saved)
    found = next((g for g in inside if g), None) or gradient_at(situation.site)
    if found is None or not found.call.args or isinstance(found.call.args[0], ast.Starred):
        return
    function = found.call.args[0]
    if is_made_by_checkpoint(found.file, function):
        return
    for policy in policies:
        yield Change(
            kind=KIND,
            title=f"checkpoint {shown(found.file, function)}, keeping {policy.keeps}",
            numerics=Numerics.TOLERANCE,
            edits=checkpoint_around(found.file, function, policy, checkpoint=found.checkpoint),
            group="checkpoint of the loss",
            expected_bytes=sum(s.bytes for s in saved if not s.is_product) or None,
            expected_s=costs.step_s(policy),
        )


def describe(repeat: Repeat) -> str:
    """A repeat in the program's own names."""
    file = repeat.file
    if repeat.kind is RepeatKind.BODY:
        name = shown(file, repeat.body) if repeat.body else "the scanned module"
        return f"{name} in the scan of line {repeat.line}"
    if repeat.kind is RepeatKind.LOOP:
        return f"each turn of the loop of line {repeat.line}"
    functions = [s.node.func for s in repeat.sites if isinstance(s.node, ast.Call)]
    calls = dict.fromkeys(shown(file, f) for f in functions)
    lines = ", ".join(dict.fromkeys(str(s.node.lineno) for s in repeat.sites))
    return f"{' and '.join(calls)} (line {lines})"


def shown(file: SourceFile, node: ast.expr) -> str:
    """The text of an expression, of a long one its beginning."""
    text = " ".join(file.source(node).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def _nothing_found(there: list[Repeat], place: str) -> str:
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
