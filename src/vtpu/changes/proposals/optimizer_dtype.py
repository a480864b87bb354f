"""The optimizer's moments in bfloat16."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.casting import TYPE, cast_state, in_full, saved_bytes
from vtpu.changes.rewriting.split_state import names_of
from vtpu.changes.situation import Situation
from vtpu.changes.source.state import read_state

KIND = "optimizer-dtype"
_LEAST_SHARE = 0.05  # of the program's memory


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: all of them."""
    state = read_state(situation)
    arrays = in_full(state.optimizer) if state else ()
    saved = saved_bytes(arrays)
    if state is None or saved < _LEAST_SHARE * (situation.program.report.need_bytes or 1):
        yield NotApplicable(
            kind=KIND,
            reason="nothing that is known to be optimizer state takes a noticeable part of its memory in float32",
        )
        return
    way = cast_state(situation, state, state.optimizer)
    if isinstance(way, str):
        yield NotApplicable(kind=KIND, reason=way)
        return
    yield Change(
        kind=KIND,
        title=f"{names_of(state, state.optimizer)} in {TYPE}",
        numerics=Numerics.DIFFERENT,
        edits=way.edits,
        arguments=way.arguments,
        advice=way.advice,
        group=KIND,
        caution="moments keep 8 bits of precision: a second moment that decays slowly may stop to follow; the "
        "first one alone is usual",
        expected_bytes=saved,
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="The optimizer's moments in bfloat16 instead of float32, and what the step returns of them.",
    applies="Optimizer state in float32 takes a noticeable part of the memory, and where the function returns "
    "the new one is found.",
    numerics="Different by design: moments are rounded to 8 bits of precision.",
    propose=propose,
)
