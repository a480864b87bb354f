"""Timings that end before the devices do."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from vtpu.analysis.run.unawaited import UnawaitedTiming, unawaited_timings
from vtpu.analysis.source_lines import SourceLine
from vtpu.findings.finding import Evidence, Finding, Severity, count, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.units import counted, format_seconds

_LEAST_S = 1e-3  # who measures less measures the host
_LEAST_FACTOR = 2.0


def find(subject: RunSubject) -> Iterable[Finding]:
    """Each timing of a run that is over much earlier than what it is to measure."""
    for found in unawaited_timings(subject.recording, subject.virtual_run, subject.files):
        if found.device_s >= max(_LEAST_S, _LEAST_FACTOR * found.host_s):
            yield _finding(subject, found)


def _finding(subject: RunSubject, found: UnawaitedTiming) -> Finding:
    timing = found.timing
    begin, end = (SourceLine(timing.file, n, timing.function) for n in (timing.begin, timing.end))
    last = subject.lines.line(found.last_stack)
    names = {p.number: p.name for p in subject.recording.programs}
    programs = ", ".join(sorted({names[n] for n in found.programs}))
    return Finding(
        rule=RULE.slug,
        severity=Severity.MEDIUM,
        title=f"time taken without block_until_ready: the clock is read at {place(end)} when "
        f"{counted(found.executions, 'execution')} of {programs} {_are_queued(found)} "
        f"{format_seconds(found.device_s)} on the device",
        change=f"put `jax.block_until_ready({_result(subject, last)})` before the clock is read at {place(end)}",
        evidence=(
            Evidence(what="the clock is read first", line=begin),
            Evidence(what="the clock is read again", line=end),
            Evidence(what="executions between", amount=count(found.executions), line=last),
            Evidence(what="they take on a device", amount=seconds(found.device_s)),
            Evidence(what="the host takes to dispatch them", amount=seconds(found.host_s)),
        ),
        line=end,
    )


def _are_queued(found: UnawaitedTiming) -> str:
    return "is queued; it takes" if found.executions == 1 else "are queued; they take"


def _result(subject: RunSubject, line: SourceLine) -> str:
    """What the statement on a line gives its value to; `result` where it gives it to nothing."""
    file = subject.files.get(line.file)
    statements = file.on_line(line.line, ast.Assign) if file else []
    assigned = statements[0] if statements else None
    return ast.unparse(assigned.targets[0]) if isinstance(assigned, ast.Assign) else "result"


RULE = Rule(
    code="T411",
    slug="timing-without-waiting",
    group=Group.TIME,
    title="Time is taken without waiting for the device",
    why="A call of a jitted function returns when the work is queued. A clock that is read then says how long "
    "queueing takes, however long the device computes.",
    change="Call `jax.block_until_ready` on the result before the clock is read the second time.",
    limits="Only differences of clock readings in one function are seen, by the names of the standard library "
    "(`time`, `timeit`). A result that is waited for anywhere between the two is taken to be the last one. "
    "Of a loop in which a round is measured and that is far ahead of the device nothing is told: its rounds "
    "take as long as the device's.",
    in_run=find,
)
