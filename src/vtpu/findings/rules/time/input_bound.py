"""Steps in which the device waits for its input."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.host_lines import HostTime, host_by_line
from vtpu.analysis.run.step_time import BoundBy, Steps, gaps_of_steps
from vtpu.analysis.run.time import StepSummary
from vtpu.analysis.run.transfers import Direction
from vtpu.analysis.run.virtual_clock import Doing
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Amount, Cost, Evidence, Finding, Unit, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_idle_device, steps_of
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.units import format_bytes, format_seconds

_LEAST_BYTES = 64  # a few numbers are no input


def find(subject: RunSubject) -> Iterable[Finding]:
    """The steps of a run, where they are bound by their input."""
    step = steps_of(subject)
    if step is None or not step.is_input_bound or not has_input(step):
        return
    idle = step.steps.idle
    waits = idle.host_blocked_s + idle.input_transfer_s
    is_blocked = step.steps.bound_by is BoundBy.HOST_BLOCKED
    blocked = _blocked(subject, step) if is_blocked else ()
    line = blocked[0].line if blocked else _sending(subject)
    yield Finding(
        rule=RULE.slug,
        severity=of_idle_device(waits, step),
        title=f"the device waits {format_seconds(waits)} of each step of {step.program} for its input: "
        + (
            f"the host is blocked before {place(line)}"
            if is_blocked
            else f"what {place(line)} sends is on its way"
        ),
        change=_for_blocked(step.steps, line) if is_blocked else _for_transfer(step.steps, line),
        evidence=(*_of_step(step), *(_at(row) for row in blocked)),
        cost=Cost(step=seconds(waits)),
        line=line,
        program=step.program,
    )


def has_input(step: StepSummary) -> bool:
    """Whether a step is sent anything: else what blocks its host is no input."""
    return step.steps.to_device.bytes >= _LEAST_BYTES


def _blocked(subject: RunSubject, step: StepSummary) -> tuple[HostTime, ...]:
    gaps = gaps_of_steps(subject.recording, subject.virtual_run, step.steps.program)
    rows = host_by_line(subject.recording, subject.virtual_run, gaps, subject.lines)
    return tuple(row for row in rows if row.doing is Doing.BLOCKED)


def _sending(subject: RunSubject) -> SourceLine:
    """The line that sends most."""
    sent = (t for t in subject.summary.transfers if t.direction is Direction.HOST_TO_DEVICE)
    return max(sent, key=lambda t: t.bytes).line if sent else UNKNOWN_LINE


def _for_blocked(steps: Steps, line: SourceLine) -> str:
    return (
        f"have the next batches ready before {place(line)} asks for them: a batch takes "
        f"{format_seconds(steps.host_blocked_s)} and the device is done with one in "
        f"{format_seconds(steps.busy_s)}. More loader threads or processes with a queue between, or less "
        "work for each batch"
    )


def _for_transfer(steps: Steps, line: SourceLine) -> str:
    size = format_bytes(round(steps.to_device.bytes))
    return (
        f"send the next batch before the step that needs it is dispatched (`jax.device_put` at {place(line)} one "
        f"batch ahead), or send fewer bytes than {size} a step: integers or bfloat16, converted on the device"
    )


def _of_step(step: StepSummary) -> Iterable[Evidence]:
    steps, idle = step.steps, step.steps.idle
    yield Evidence(what="a step", amount=seconds(steps.mean_s), line=step.line)
    yield Evidence(what="the device works in it", amount=seconds(steps.busy_s))
    yield Evidence(
        what="the device waits for its input, of a step",
        amount=share((idle.host_blocked_s + idle.input_transfer_s) / steps.mean_s, Basis.MODELLED),
    )
    yield Evidence(
        what="sent to the devices in a step",
        amount=Amount(round(steps.to_device.bytes), Unit.BYTES, Basis.SIMULATED),
    )


def _at(row: HostTime) -> Evidence:
    return Evidence(
        what="idle while the host is blocked before this line", amount=seconds(row.seconds), line=row.line
    )  # fmt: skip


RULE = Rule(
    code="T401",
    slug="input-bound",
    group=Group.TIME,
    title="The device waits for its input",
    why="A step cannot begin before its batch is on the device. Where the host is blocked until another "
    "thread, a file or the network gives it one, or where the batch is still on its way, the device has "
    "nothing to do for that long in every step.",
    change="Prepare batches ahead in threads or processes of their own, keep two or more in a queue, send "
    "the next one while the device works on this one, and send no more bytes than needed.",
    limits="The slice's host is taken to be as fast as this machine, and what blocks it to block it as "
    "long (`--host-speed` asks otherwise). What a thread is blocked by is not seen, only before which line: "
    "a sleep or a checkpoint in every step is told as input. Nothing is told of a paced run.",
    fixes=("keep-on-device",),
    in_run=find,
)
