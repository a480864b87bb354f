"""Parameters and other state that every device holds whole, though the mesh could split it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import Role, tree_of
from vtpu.analysis.program.spread import Split, Spread, find_undivided
from vtpu.findings.arguments import is_tight, line_of, spreads
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import listed
from vtpu.units import format_bytes

_LEAST_BYTES = 1 << 20
_LEAST_PART = 0.01  # of HBM: copies of less are cheaper than the communication

_Found = list[tuple[Spread, Split]]


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all state that could be split."""
    found = _could_be_split(subject)
    saved = sum(spread.saved_bytes(split.parts) for spread, split in found)
    if not subject.limit_bytes or saved < _LEAST_PART * subject.limit_bytes:
        return
    size = sum(spread.item.bytes for spread, _ in found)
    names = listed(tree_of(spread.item.name) for spread, _ in found)
    first = found[0][0]
    yield Finding(
        rule=RULE.slug,
        severity=_severity(subject, saved),
        title=f"{names} of {format_bytes(size)} have copies on {first.copies} devices{_over(first)}; split "
        f"they would take {format_bytes(sum(s.item.bytes // by.parts for s, by in found))} on each",
        change=_change(found, names),
        evidence=tuple(_evidence(found)),
        cost=Cost(hbm=hbm_bytes(saved)),
        line=line_of(subject),
        program=subject.name,
    )


def _could_be_split(subject: ProgramSubject) -> _Found:
    """Large state with copies and how to split it. What does not divide, and optimizer state where
    memory is tight, have rules of their own.
    """
    every = spreads(subject)
    others = {u.spread.item.name for u in find_undivided(every)}
    return [
        (spread, split)
        for spread in every
        if spread.is_state and spread.copies > 1 and spread.item.bytes >= _LEAST_BYTES
        if spread.item.name not in others
        if not (spread.item.role is Role.OPTIMIZER and is_tight(subject))
        if (split := spread.best_split())
    ]


def _severity(subject: ProgramSubject, saved: int) -> Severity:
    """By what it would save; where there is room enough, copies save communication."""
    found = of_hbm(saved, subject.report.need_bytes, subject.limit_bytes)
    return found if is_tight(subject) else min(found, Severity.MEDIUM)


def _over(spread: Spread) -> str:
    names = [name for name, _ in spread.free_axes or ()]
    return f" ({listed(names)})" if names else ""


def _change(found: _Found, names: str) -> str:
    spread, split = found[0]
    how = spread.spec(split)
    given = f"NamedSharding(mesh, {how})" if split.axes else f"a sharding with {how}"
    return (
        f"split {names} over the devices, {spread.item.name} by {given}, and return the new state with the "
        "same shardings (`out_shardings`); the compiler gathers what a layer needs when it needs it"
    )


def _evidence(found: _Found) -> Iterable[Evidence]:
    trees: dict[str, _Found] = defaultdict(list)
    for spread, split in found:
        trees[tree_of(spread.item.name)].append((spread, split))
    for name, members in trees.items():
        now = sum(spread.item.bytes for spread, _ in members)
        then = sum(spread.item.bytes // split.parts for spread, split in members)
        spread, split = members[0]
        text = f"{format_bytes(then)} when split, {spread.item.name} by {spread.spec(split)}"
        yield Evidence(what=f"argument {name} on each device", amount=hbm_bytes(now), text=text)
    if outputs := sum(spread.output_bytes for spread, _ in found):
        yield Evidence(what="results like them, not donated", amount=hbm_bytes(outputs))


RULE = Rule(
    code="M155",
    slug="replicated",
    group=Group.MEMORY,
    title="State has copies on devices that could share it",
    why="What has no sharding lies whole on every device. Data-parallel training with copies of parameters "
    "and optimizer state is limited by one device's memory, however many there are.",
    change="Shard parameters (FSDP) and optimizer state (ZeRO) over the data axis: a `NamedSharding` for "
    "each array and the same for the results.",
    limits="State is recognised by names of arguments, or by a result of the same shape. Splitting costs "
    "communication, which is not in the figure. Below 1 % of HBM copies are left alone.",
    fixes=("shard-parameters", "shard-optimizer"),
    in_program=find,
)
