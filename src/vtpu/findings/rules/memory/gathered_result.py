"""Results with more copies than the argument that they replace."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.gathered import Gathered, find_gathered
from vtpu.analysis.program.spread import spec_text
from vtpu.findings.arguments import line_of
from vtpu.findings.finding import Cost, Evidence, Finding, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share, of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import listed
from vtpu.units import counted, format_bytes

_LEAST_BYTES = 1 << 20


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all results that are gathered."""
    every = find_gathered(subject.module) if subject.module else ()
    found = [g for g in every if g.more_bytes >= _LEAST_BYTES]
    if not found:
        return
    more = sum(g.more_bytes for g in found)
    waits = _waits_for_gathers(subject)
    names = listed(g.argument for g in found)
    size = sum(g.result_bytes for g in found)
    by_memory = of_hbm(more, subject.report.need_bytes, subject.limit_bytes)
    yield Finding(
        rule=RULE.slug,
        severity=max(by_memory, by_share(waits or 0.0, subject.step_s)),
        title=f"{subject.name} returns {names} gathered: {format_bytes(size)} on each device for "
        f"{format_bytes(size - more)} that came in",
        change=_change(found),
        evidence=tuple(_evidence(subject, found)),
        cost=Cost(hbm=hbm_bytes(more), step=seconds(waits) if waits else None),
        line=line_of(subject),
        program=subject.name,
    )


def _waits_for_gathers(subject: ProgramSubject) -> float | None:
    """How long the core waits for the all-gathers of a program that has no other reason for them."""
    time = subject.report.time
    gathers = [c for c in time.communications if c.kind == "all-gather"] if time else []
    return gathers[0].exposed_s if len(gathers) == 1 and gathers[0].runs == 1 else None


def _change(found: list[Gathered]) -> str:
    first = found[0]
    spec = spec_text(first.argument_sharding)
    how = f"NamedSharding(mesh, {spec})" if spec else f"the sharding of {first.argument}"
    return (
        f"return it as it came in: `out_shardings` of result {first.result} as {first.argument} has it, {how}; "
        "donated, it takes no new memory then"
    )


def _evidence(subject: ProgramSubject, found: list[Gathered]) -> Iterable[Evidence]:
    for gathered in found[:_MOST]:
        came = f"argument {gathered.argument}, in {counted(gathered.argument_sharding.pieces, 'piece')}"
        yield Evidence(what=came, amount=hbm_bytes(gathered.argument_bytes))
        what = f"result {gathered.result}, in {counted(_pieces(gathered), 'piece')}"
        yield Evidence(what=what, amount=hbm_bytes(gathered.result_bytes))
    if waits := _waits_for_gathers(subject):
        yield Evidence(what="the core waits for the all-gather", amount=seconds(waits))


def _pieces(gathered: Gathered) -> int:
    return gathered.argument_sharding.pieces // gathered.fewer


_MOST = 3

RULE = Rule(
    code="M161",
    slug="gathered-result",
    group=Group.MEMORY,
    title="A result has more copies than the argument that it replaces",
    why="State that comes in split and goes out whole costs an all-gather and as many times its memory, "
    "cannot take the memory of the donated argument, and the next step has another program or another copy.",
    change="Give the results the shardings of the arguments: `out_shardings`, or `with_sharding_constraint`.",
    limits="A result belongs to an argument when type and whole shape are the same, so a result that is gathered "
    "on purpose, to be read, is found too.",
    fixes=("out-shardings",),
    in_program=find,
)
