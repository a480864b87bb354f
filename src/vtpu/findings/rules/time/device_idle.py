"""Steps between which the device is idle because of the host's own work or its reads."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.host_lines import HostTime, host_by_line
from vtpu.analysis.run.step_time import gaps_of_steps, whole_steps
from vtpu.analysis.run.time import StepSummary
from vtpu.analysis.run.virtual_clock import Doing
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.rules.time.input_bound import has_input
from vtpu.findings.step_cost import of_idle_device, steps_of
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.units import format_seconds

_LEAST = 0.05  # of a step: below this the device is busy, or the host does not wait
_WORDS = {
    Doing.WORKING: "idle while the host works before this line",
    Doing.WAITING: "idle while this line waits for a result",
    Doing.BLOCKED: "idle while the host is blocked before this line",
}


def find(subject: RunSubject) -> Iterable[Finding]:
    """The steps of a run, where the host's work or its reads leave the device without any."""
    step = steps_of(subject)
    if step is None:
        return
    idle = step.steps.idle
    lost = idle.host_works_s + idle.host_waits_s
    if not has_input(step):
        lost += idle.host_blocked_s
    if not lost or lost < _LEAST * step.steps.mean_s:
        return
    rows, reads = _idle(subject, step), _reads(subject, step)
    own = next((row for row in rows if row.doing is not Doing.BLOCKED), None)
    yield Finding(
        rule=RULE.slug,
        severity=of_idle_device(lost, step),
        title=f"the device is idle for {format_seconds(lost)} of each step of {step.program}: "
        + _reason(own, reads),
        change=_change(own, reads),
        evidence=(*_of_step(step, lost), *map(_idle_at, rows), *map(_read_at, reads)),
        cost=Cost(step=seconds(lost)),
        line=own.line if own else UNKNOWN_LINE,
        program=step.program,
    )


def _idle(subject: RunSubject, step: StepSummary) -> list[HostTime]:
    """What the host does in the gaps."""
    gaps = gaps_of_steps(subject.recording, subject.virtual_run, step.steps.program)
    rows = host_by_line(subject.recording, subject.virtual_run, gaps, subject.lines)
    return [row for row in rows if row.doing in _WORDS]


def _reads(subject: RunSubject, step: StepSummary) -> list[HostTime]:
    """Where the host waits for results in every step, so that it is not ahead."""
    steps = whole_steps(subject.recording, subject.virtual_run, step.steps.program)
    rows = host_by_line(subject.recording, subject.virtual_run, steps, subject.lines)
    least = _LEAST * step.steps.mean_s
    return [row for row in rows if row.doing is Doing.WAITING and row.seconds >= least]


def _reason(own: HostTime | None, reads: list[HostTime]) -> str:
    if own is None:
        return "the host is not ahead of it"
    if own.doing is Doing.WAITING:
        return f"the host waits for what {place(own.line)} reads before it goes on"
    behind = f", and is not ahead, for {place(reads[0].line)} reads a result" if reads else ""
    return f"the host works before {place(own.line)}{behind}"


def _change(own: HostTime | None, reads: list[HostTime]) -> str:
    if reads:
        return (
            f"do not read at {place(reads[0].line)} in every step: dispatch the next step first and read "
            "what the one before made, or read every so many steps, so that the device has work ahead"
        )
    before = f"before {place(own.line)} " if own else ""
    return (
        f"do less on the host {before}in every step, or in another thread: put what it computes under "
        "`jax.jit`, together with the step, and prepare batches ahead"
    )


def _of_step(step: StepSummary, lost: float) -> Iterable[Evidence]:
    steps = step.steps
    yield Evidence(what="a step", amount=seconds(steps.mean_s), line=step.line)
    yield Evidence(what="the device works in it", amount=seconds(steps.busy_s))
    part = share(lost / steps.mean_s, Basis.MODELLED)
    yield Evidence(what="the device is idle, of a step", amount=part)


def _idle_at(row: HostTime) -> Evidence:
    return Evidence(what=_WORDS[row.doing], amount=seconds(row.seconds), line=row.line)


def _read_at(row: HostTime) -> Evidence:
    return Evidence(
        what="the host waits here for a result", amount=seconds(row.seconds), line=row.line
    )


RULE = Rule(
    code="T402",
    slug="device-idle",
    group=Group.TIME,
    title="The device is idle between steps",
    why="JAX dispatches ahead: while the device computes, the host may be many steps further. Where the host "
    "reads a result in every step it is not ahead, and what it does until the next step is dispatched is "
    "time in which the device has nothing to do. The same where it works longer for a step than the device.",
    change="Read results seldom and one step late, log from copies that were asked for ahead "
    "(`copy_to_host_async`), and do less on the host: fewer and larger jitted functions, no NumPy between.",
    limits="The host's work is this machine's CPU time, and the slice's host is taken to be as fast "
    "(`--host-speed` asks otherwise). Time in which it is blocked is input-bound's, where a step is sent "
    "anything. Waits for `jax.effects_barrier()` are not seen. Nothing is told of a "
    "paced run, and of steps that take the device less than 0.1 ms.",
    fixes=("fewer-reads", "keep-on-device"),
    in_run=find,
)
