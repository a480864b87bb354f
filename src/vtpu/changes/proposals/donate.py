"""Donation of arguments whose memory an output can take."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.findings.rules.memory.not_donated import donatable

KIND = "donate"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: all arguments that could be donated."""
    sizes = donatable(situation.program)
    if not sizes:
        yield NotApplicable(kind=KIND, reason="no output could take an argument's memory")
        return
    site = situation.site
    names = [n for n in sizes if site and n in site.parameters]
    if site is None or not names:
        yield NotApplicable(
            kind=KIND,
            reason=f"where the function is jitted was not found: donate {', '.join(sizes)}",
        )
        return
    numbers = {site.parameters.index(n) for n in names} | _donated_numbers(
        site.keyword("donate_argnums")
    )
    yield Change(
        kind=KIND,
        title=f"donate {', '.join(names)}",
        numerics=Numerics.IDENTICAL,
        edits=(site.with_keyword("donate_argnums", repr(tuple(sorted(numbers)))),),
        group=KIND,
        caution="the donated arrays cannot be used after the call",
        expected_bytes=sum(sizes[n] for n in names),
    )


def _donated_numbers(there: ast.expr | None) -> set[int]:
    """What is donated already."""
    if there is None:
        return set()
    value = ast.literal_eval(there)
    return {value} if isinstance(value, int) else set(value)


PROPOSAL = Proposal(
    kind=KIND,
    what="`donate_argnums` for arguments whose memory an output can take.",
    applies="An output has the shape, type and sharding of an argument that is not donated.",
    numerics="None: the results are the same bits.",
    propose=propose,
)
