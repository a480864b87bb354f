"""Python numbers that operations outside jit send to the device, step after step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vtpu.analysis.run.definitions import is_operation
from vtpu.analysis.run.host_time import host_seconds
from vtpu.analysis.run.loop import Repeated, repeated
from vtpu.analysis.run.sending import sent_for_operations
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import in_steps, quoted
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds
from vtpu.units import counted

_FEWEST_STEPS = 3
_OFTEN = 0.5  # of the steps


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each line that sends numbers in most steps."""
    loop = subject.loop
    if loop is None:
        return
    for line in repeated(subject.recording, subject.lines, loop, _scalars(subject)):
        if line.steps >= _FEWEST_STEPS and line.share >= _OFTEN:
            yield _finding(subject, line)


def _scalars(subject: RunSubject) -> np.ndarray:
    """Where numbers went to a device's memory for an operation outside jit."""
    events, recording = subject.recording.events, subject.recording
    sent = (events["kind"] == EventKind.HOST_TO_DEVICE) & (
        memory_kinds(events) == MemoryKind.DEVICE
    )
    places = np.flatnonzero(sent)
    shapes = [recording.shape(n) for n in events["detail"][places].tolist()]
    is_scalar = np.array([shape is not None and not shape.dims for shape in shapes], bool)
    places = places[is_scalar]
    return places[sent_for_operations(recording, places)]


def _finding(subject: RunSubject, line: Repeated) -> Finding:
    spent = host_seconds(subject.recording, line.events)
    per_call = float(np.median(spent)) / subject.host_speed
    cost = per_call * line.per_step
    text = subject.files.text(line.line)
    what = counted(round(line.per_step), "number") if line.per_step >= 2 else "a number"
    return Finding(
        rule=RULE.slug,
        severity=min(by_share(cost, subject.step_s), _worst(subject)),
        title=f"{quoted(text) if text else 'a line'} sends {what} to the device {in_steps(line)}",
        change="run what the loop does under one `jax.jit`, where numbers become constants of the program; "
        "or make an array of the number once, before the loop",
        evidence=(
            Evidence(what="transfers", amount=count(len(line.events)), line=line.line),
            Evidence(
                what="bytes of all",
                amount=hbm_bytes(
                    int(subject.recording.events["bytes"][line.events].sum()), Basis.SIMULATED
                ),
            ),
            Evidence(
                what="what the host computes for one", amount=seconds(per_call, Basis.MEASURED)
            ),
        ),
        cost=Cost(step=seconds(cost, Basis.MEASURED)),
        line=line.line,
    )


def _worst(subject: RunSubject) -> Severity:
    """Low where the loop has no jitted function at all: what is fast and slow there is another question."""
    step = subject.summary.time.step.steps.program if subject.summary.time and subject.summary.time.step else 0  # fmt: skip
    record = next((p for p in subject.recording.programs if p.number == step), None)
    return Severity.LOW if record is None or is_operation(record) else Severity.MEDIUM


RULE = Rule(
    code="X201",
    slug="implicit-host-to-device",
    group=Group.TRANSFERS,
    title="Python numbers are sent to the device again in each step",
    why="Outside jit every operation is a program of its own, and a Python number in it becomes an array "
    "that is sent to the device first: `x + 0.5` in a loop sends 0.5 each time. The bytes are nothing, but "
    "each transfer is a call that keeps the host, and the device waits when the host is late.",
    change="Put the loop's body under `jax.jit`: a number written in it is then part of the program. A number "
    "that changes can stay on the device and be updated there.",
    limits="Numbers that are passed to a jitted function (`step(state, i)`) are not reported: they are few and "
    "meant. What the program asks for itself (`jax.device_put`, `jnp.asarray`, `jnp.zeros`) is not either, nor "
    "are fresh input batches; arrays that are sent again are another rule's (host-array-sent-again). The host's time is "
    "this machine's.",
    in_run=find,
)
