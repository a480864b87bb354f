"""Copies between HBM and the host's memory that the core waits for."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.time.report import TimeReport
from vtpu.analysis.time.rows import OperationRow
from vtpu.clock.resources import Resource
from vtpu.evidence import Basis
from vtpu.findings.finding import Amount, Cost, Evidence, Finding, Unit, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at
from vtpu.program.modules import Module
from vtpu.program.work import work_of
from vtpu.units import format_bytes, format_seconds

_LEAST = 0.01  # of the step
_COMPUTES = 0.1  # of the step
_TALKS = ("send", "recv", "infeed", "outfeed")  # callbacks and feeds: not memory of the program


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all copies to and from host memory that a program waits for."""
    time, module = subject.report.time, subject.module
    if time is None or module is None:
        return
    rows = _waited_for(time)
    waits = sum(row.seconds for row in rows)
    if waits < _LEAST * time.seconds or not waits:
        return
    moved = sum(_bytes(module, row) for row in rows)
    yield Finding(
        rule=RULE.slug,
        severity=of_time(_avoidable(subject, time, waits, moved), subject),
        title=f"the core waits {format_seconds(waits)} of {format_seconds(time.seconds)} for {format_bytes(moved)} "
        f"that go between HBM and the host's memory{at(rows[0].line)}",
        change=_change(subject, time, moved),
        evidence=(
            Evidence(what="the core computes", amount=seconds(time.time.core_busy)),
            *(e for row in rows for e in _evidence(module, row)),
        ),
        cost=Cost(step=seconds(waits)),
        line=rows[0].line,
        program=subject.name,
    )


def _waited_for(time: TimeReport) -> list[OperationRow]:
    return [
        row
        for row in time.rows
        if row.bound is Resource.HOST_LINK and row.seconds and row.instruction.opcode not in _TALKS
    ]


def _bytes(module: Module, row: OperationRow) -> int:
    transfers = work_of(module, row.instruction).transfers
    return round(sum(t.bytes for t in transfers) * row.time.runs)


def _avoidable(subject: ProgramSubject, time: TimeReport, waits: float, moved: int) -> float:
    """How much of the waits: all where HBM has room, else what computing could cover.

    A program that computes next to nothing is there for what it copies.
    """
    core = time.time.core_busy
    is_needless = moved <= _free(subject) and core >= _COMPUTES * time.seconds
    return waits if is_needless else min(waits, core)


def _free(subject: ProgramSubject) -> int:
    need, limit = subject.report.need_bytes, subject.limit_bytes
    return limit - need if need is not None and limit is not None else 0


def _change(subject: ProgramSubject, time: TimeReport, moved: int) -> str:
    if moved <= _free(subject):
        return f"keep them in HBM: {format_bytes(_free(subject))} of it are free"
    share = time.time.core_busy / time.seconds
    return (
        f"move less than what the core computes meanwhile covers ({share:.0%} of the step): offload only what is "
        "used long after it is made, copy it back a layer ahead, or accumulate batches so that the optimizer's "
        "state moves less often"
    )


def _evidence(module: Module, row: OperationRow) -> Iterable[Evidence]:
    what = f"{row.layer or row.instruction.name}: waited for, {row.time.runs:g} times"
    yield Evidence(what=what, amount=seconds(row.seconds), line=row.line)
    yield Evidence(
        what="bytes over the host link", amount=Amount(_bytes(module, row), Unit.BYTES, Basis.COMPILER)
    )  # fmt: skip


RULE = Rule(
    code="T408",
    slug="exposed-offload",
    group=Group.TIME,
    title="The core waits for the host's memory",
    why="What is offloaded to the host's memory comes back over a link that carries a small part of what HBM "
    "does. It runs beside the core, but where less is computed meanwhile than the copies take, the core waits.",
    change="Offload less, or what is needed last; start copies earlier; keep in HBM what has room there.",
    limits="The link is taken to be free of other transfers, and its rate as published. Callbacks and feeds are "
    "not looked at. Where HBM has no room, how bad it is goes by what computing could cover.",
    fixes=("offload", "checkpoint", "accumulate"),
    in_program=find,
)
