"""Optimizer state that takes much of a tight HBM and could lie elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import Role, tree_of
from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.spread import Split, Spread
from vtpu.analysis.time.programs import machine_of_slice
from vtpu.evidence import Basis
from vtpu.findings.arguments import is_tight, line_of, spreads
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import listed
from vtpu.program.memory import AllocationKind
from vtpu.units import format_bytes

_LEAST_BYTES = 1 << 20
_LEAST_PART = 0.05  # of HBM


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """Optimizer state with copies that could be split; else what could be in the host's memory."""
    if not is_tight(subject):
        return
    copied = _copied(subject)
    saved = sum(spread.saved_bytes(split.parts) for spread, split in copied)
    if _is_much(subject, saved):
        items = [spread.item for spread, _ in copied]
        yield _finding(subject, items, saved, _splitting(copied), _when_split(copied))
        return
    items = _in_hbm(subject)
    size = sum(i.bytes for i in items)
    if _is_much(subject, size):
        yield _finding(subject, items, size, _OFFLOADING, _transfer(subject, size))


def _copied(subject: ProgramSubject) -> list[tuple[Spread, Split]]:
    return [
        (spread, split)
        for spread in spreads(subject)
        if spread.item.role is Role.OPTIMIZER and spread.copies > 1
        if spread.item.bytes >= _LEAST_BYTES and (split := spread.best_split())
    ]


def _in_hbm(subject: ProgramSubject) -> list[MemoryItem]:
    hbm = subject.report.usage.hbm if subject.report.usage else None
    arguments = (i for i in hbm.items if i.occupant.kind is AllocationKind.ARGUMENT) if hbm else ()
    return [i for i in arguments if i.role is Role.OPTIMIZER and i.bytes >= _LEAST_BYTES]


def _is_much(subject: ProgramSubject, size: int) -> bool:
    return size >= _LEAST_PART * (subject.limit_bytes or size + 1)


def _finding(
    subject: ProgramSubject,
    items: list[MemoryItem],
    saved: int,
    change: str,
    evidence: Iterable[Evidence],
) -> Finding:
    size, need = sum(i.bytes for i in items), subject.report.need_bytes or 0
    limit = subject.limit_bytes or 1
    names = listed(tree_of(i.name) for i in items)
    return Finding(
        rule=RULE.slug,
        severity=_severity(need, saved, limit),
        title=f"the optimizer state {names} takes {format_bytes(size)} on each device, and {subject.name} needs "
        f"{need / limit:.0%} of HBM",
        change=change.format(names=names),
        evidence=(*_by_type(items), *evidence, *_of_program(need, limit)),
        cost=Cost(hbm=hbm_bytes(saved)),
        line=line_of(subject),
        program=subject.name,
    )


def _severity(need: int, saved: int, limit: int) -> Severity:
    """High where the program does not fit and would; an option where it fits."""
    if need <= limit:
        return Severity.LOW
    return Severity.HIGH if need - saved <= limit else Severity.MEDIUM


def _by_type(items: list[MemoryItem]) -> Iterable[Evidence]:
    sizes: Counter[str] = Counter()
    for item in items:
        sizes[item.dtype] += item.bytes
    for dtype, size in sizes.most_common():
        yield Evidence(what=f"optimizer state in {dtype}", amount=hbm_bytes(size))


def _of_program(need: int, limit: int) -> Iterable[Evidence]:
    yield Evidence(what="the program needs", amount=hbm_bytes(need))
    yield Evidence(what="of HBM", amount=share(need / limit, Basis.COMPILER))


def _splitting(copied: list[tuple[Spread, Split]]) -> str:
    spread, split = copied[0]
    how = spread.spec(split).replace("{", "{{").replace("}", "}}")
    name = spread.item.name.replace("{", "{{").replace("}", "}}")
    given = f"NamedSharding(mesh, {how})" if split.axes else how
    return (
        f"split {{names}} over the {spread.copies} devices that have copies (ZeRO), {name} by {given}, and "
        "return the new state with the same shardings; parameters may stay as they are"
    )


def _when_split(copied: list[tuple[Spread, Split]]) -> Iterable[Evidence]:
    then = sum(spread.item.bytes // split.parts for spread, split in copied)
    yield Evidence(what="optimizer state on each device when split", amount=hbm_bytes(then))


_OFFLOADING = (
    "keep {names} in the host's memory between steps: a sharding with memory_kind='pinned_host' for the "
    "argument and the result, and update one layer after the other; or keep the moments in bfloat16"
)


def _transfer(subject: ProgramSubject, size: int) -> Iterable[Evidence]:
    """What the link to the host takes for it, to and fro, where its rate is known."""
    rate = machine_of_slice(subject.slice).host_link_bytes_per_s if subject.slice else None
    if rate:
        took = seconds(2 * size / rate)
        yield Evidence(what="link to the host, to and fro in each step", amount=took)


RULE = Rule(
    code="M159",
    slug="optimizer-state",
    group=Group.MEMORY,
    title="Optimizer state fills a tight HBM",
    why="Adam keeps two numbers for each parameter, mostly in float32: twice what the parameters take. It is "
    "used once a step, so it can be split over devices that have copies (ZeRO), or wait in the host's memory.",
    change="Split it over the data axis; or `memory_kind='pinned_host'`, where the step is long enough to "
    "hide the transfer; or moments of fewer bits.",
    limits="Looked for where a program needs more than 60 % of HBM and the state is at least 5 % of it. It is "
    "recognised by names of arguments (`opt_state`, `mu`, `nu`, `momentum`). The transfer is not overlapped "
    "in the figure.",
    fixes=("shard-optimizer", "optimizer-in-host-memory"),
    in_program=find,
)
