"""Values that the host reads in the loop, step after step, and for which it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from vtpu.analysis.run.host_time import host_seconds_after
from vtpu.analysis.run.loop import Repeated, repeated
from vtpu.analysis.run.reads import waiting_reads
from vtpu.analysis.run.step_if import without
from vtpu.analysis.source.reads import what_is_read
from vtpu.evidence import Basis
from vtpu.findings.finding import (
    Amount,
    Cost,
    Evidence,
    Finding,
    Severity,
    Unit,
    hbm_bytes,
    seconds,
)
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import in_steps, quoted
from vtpu.units import MIB, format_bytes, format_seconds

_FEWEST_STEPS = 3
_RARELY = 0.10  # of the steps: a read every ten steps is as it should be
_LARGE = MIB  # bytes per step; smaller reads cost what waiting costs


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding of all reads in the loop: the host waits once, whichever of them it is for."""
    loop = subject.loop
    if loop is None:
        return
    reads = repeated(subject.recording, subject.lines, loop, waiting_reads(subject.recording))
    reads = [r for r in reads if r.steps >= _FEWEST_STEPS and r.share > _RARELY]
    if reads:
        yield _finding(subject, reads)


def _finding(subject: RunSubject, reads: Sequence[Repeated]) -> Finding:
    places = np.concatenate([r.events for r in reads])
    saved = subject.saved_if(without(subject.recording.events, places)) or 0.0
    size = sum(r.bytes_per_step for r in reads)
    lost = max(saved, _idle_s(subject))
    if size >= _LARGE:
        lost += _idle_while_worked_on(subject, reads)
    return Finding(
        rule=RULE.slug,
        severity=_severity(by_share(lost, subject.step_s), size),
        title=_title(subject, reads, size, lost),
        change=_change(subject, reads, size),
        evidence=_evidence(subject, reads, saved),
        cost=Cost(step=seconds(lost)),
        line=reads[0].line,
    )


def _severity(by_cost: Severity, size: float) -> Severity:
    """Of large reads what they cost, and a little in any case: the host does something with them too. Of
    small ones never high, for what they cost depends on the speed of the host.
    """
    return max(by_cost, Severity.LOW) if size >= _LARGE else min(by_cost, Severity.MEDIUM)


def _title(subject: RunSubject, reads: Sequence[Repeated], size: float, lost: float) -> str:
    text = subject.files.text(reads[0].line)
    where = quoted(text) if text else str(reads[0].line)
    others = f" and {len(reads) - 1} more" if len(reads) > 1 else ""
    step = format_seconds(subject.step_s or 0.0)
    return (
        f"the host waits for {where}{others} {in_steps(max(reads, key=lambda r: r.steps))}: "
        f"{format_bytes(round(size))} read, {format_seconds(lost)} of a step of {step}"
    )


def _change(subject: RunSubject, reads: Sequence[Repeated], size: float) -> str:
    names = [what_is_read(subject.files.get(r.line.file), r.line.line) for r in reads]
    what = ", ".join(f"`{name}`" for name in dict.fromkeys(filter(None, names))) or "what is read"
    if size >= _LARGE:
        return (
            f"compute on the device what is needed of {what} and read that; or read it every 100 steps, or a "
            "step later after `copy_to_host_async()`"
        )
    return (
        f"keep {what} on the device (in a list, or summed up there) and read every 100 steps; or start "
        "`copy_to_host_async()` and read the value of the step before"
    )


def _evidence(subject: RunSubject, reads: Sequence[Repeated], saved: float) -> tuple[Evidence, ...]:
    per_line = tuple(
        Evidence(
            what=f"{r.per_step:.3g} reads in a step, by `{subject.files.text(r.line)}`",
            amount=hbm_bytes(round(r.bytes_per_step), Basis.SIMULATED),
            line=r.line,
        )
        for r in reads
    )
    busy = sum(_worked_on(subject, r) for r in reads)
    return (
        *per_line,
        Evidence(what="a step is shorter without these reads by", amount=seconds(saved)),
        Evidence(what="the device is idle in a step while the host waits", amount=seconds(_idle_s(subject))),
        Evidence(what="what the host computes after these reads, up to its next call", amount=seconds(busy, Basis.MEASURED)),
        Evidence(what="steps with a read", amount=Amount(max(r.share for r in reads), Unit.SHARE, Basis.SIMULATED)),
    )  # fmt: skip


def _idle_s(subject: RunSubject) -> float:
    """How long the device has nothing to do in a step while the host waits for results."""
    time = subject.summary.time
    return time.step.steps.idle.host_waits_s if time and time.step else 0.0


def _idle_while_worked_on(subject: RunSubject, reads: Sequence[Repeated]) -> float:
    """How long the device has nothing to do in a step while the host computes with what it read."""
    time = subject.summary.time
    works = time.step.steps.idle.host_works_s if time and time.step else 0.0
    return min(works, sum(_worked_on(subject, r) for r in reads))


def _worked_on(subject: RunSubject, read: Repeated) -> float:
    """What the host computes after the reads of a line in a step: seconds, mostly on what it read."""
    spent = host_seconds_after(subject.recording, read.events)
    return float(np.median(spent)) * read.per_step / subject.host_speed


RULE = Rule(
    code="X202",
    slug="reads-in-loop",
    group=Group.TRANSFERS,
    title="The host reads from the device in the loop and waits",
    why="JAX runs ahead: the host dispatches the next steps while the device computes. `float(loss)`, "
    "`np.asarray(x)`, `x.item()` or `print(x)` stop that: the host waits until the device is done and the "
    "bytes have crossed, and the device then waits until the host has dispatched the next step.",
    change="Keep the values on the device and read them every so many steps; start a copy with "
    "`x.copy_to_host_async()` and read it one step later; reduce on the device what is large.",
    limits="What it costs is how long the device idles while the host waits, or how much shorter steps are in a "
    "replay of the run on the virtual clock without the reads, at the speed of this machine's host; what the "
    "host computes from the values it read is not in it. A value that decides what the program does next has "
    "to be read: the rule cannot tell. Reads in a tenth of the steps or less are silent, and "
    "`jax.block_until_ready` is no read.",
    fixes=("fewer-reads",),
    in_run=find,
)
