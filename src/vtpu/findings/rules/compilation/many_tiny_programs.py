"""Many operations outside jit in each step, each a program with next to no work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from vtpu.analysis.run.eager import eager_executions
from vtpu.analysis.run.host_time import host_seconds
from vtpu.analysis.run.loop import Loop, Repeated, repeated
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, count, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import quoted
from vtpu.units import format_seconds

_MANY = 10.0  # in a step: splitting a key and reading an element make a handful


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding of all such operations in the loop."""
    loop = subject.loop
    if loop is None:
        return
    lines = repeated(subject.recording, subject.lines, loop, eager_executions(subject.recording))
    per_step = sum(line.per_step for line in lines)
    if per_step < _MANY:
        return
    host_s, device_s = _host_s(subject, loop, lines), _on_device_s(subject, loop, lines)
    if device_s < host_s:
        yield _finding(subject, sorted(lines, key=lambda line: -line.in_loop), host_s, device_s)


def _finding(
    subject: RunSubject, lines: Sequence[Repeated], host_s: float, device_s: float
) -> Finding:
    per_step = round(sum(line.per_step for line in lines))
    lost = min(host_s, _idle_s(subject))
    return Finding(
        rule=RULE.slug,
        severity=by_share(lost, subject.step_s),
        title=f"{per_step} operations outside jit in each step, {format_seconds(host_s)} of the host's time in a step of "
        f"{format_seconds(subject.step_s or 0.0)}",
        change=f"put what {quoted(subject.files.text(lines[0].line))} and its like do into the jitted step, or into one "
        "jitted function of its own (an optimizer's update, a moving average, metrics)",
        evidence=(
            *(Evidence(what="operations in a step", amount=count(round(r.per_step)), line=r.line) for r in lines[:_SHOWN]),
            Evidence(what="what the host computes for them in a step", amount=seconds(host_s, Basis.MEASURED)),
            Evidence(what="what they take on the device in a step", amount=seconds(device_s)),
            Evidence(what="the device is idle in a step while the host works", amount=seconds(_idle_s(subject))),
        ),
        cost=Cost(step=seconds(lost)),
        line=lines[0].line,
    )  # fmt: skip


_SHOWN = 4


def _host_s(subject: RunSubject, loop: Loop, lines: Sequence[Repeated]) -> float:
    """What the host computes for them in a step, on the slice's host."""
    places = np.concatenate([line.events for line in lines])
    inside = places[loop.steps_of(places) >= 0]
    spent = host_seconds(subject.recording, inside)
    return float(np.median(_by_step(loop, inside, spent))) / subject.host_speed


def _by_step(loop: Loop, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.bincount(loop.steps_of(places), weights=values, minlength=loop.count)


def _on_device_s(subject: RunSubject, loop: Loop, lines: Sequence[Repeated]) -> float:
    """What they take on the device in a step, as far as it is modelled."""
    programs = subject.recording.events["program"]
    own = subject.summary.time.step.steps.program if subject.summary.time and subject.summary.time.step else 0  # fmt: skip
    total = 0.0
    for line in lines:
        inside = line.events[loop.steps_of(line.events) >= 0]
        numbers, counts = np.unique(programs[inside], return_counts=True)
        times = ((subject.times(n), c) for n, c in zip(numbers.tolist(), counts.tolist(), strict=True) if n != own)  # fmt: skip
        total += sum(time.seconds * c for time, c in times if time)
    return total / loop.count


def _idle_s(subject: RunSubject) -> float:
    time = subject.summary.time
    return time.step.steps.idle.host_works_s if time and time.step else 0.0


RULE = Rule(
    code="C307",
    slug="many-tiny-programs",
    group=Group.COMPILATION,
    title="Many operations run outside jit in each step",
    why="Outside jit every operation is a program of its own: it is dispatched by itself, reads its operands from HBM "
    "and writes its result there. The host needs some ten microseconds for each, the device often less, so that it "
    "waits for the host.",
    change="Put the loop's body, or the part of it that is made of single operations, under one `jax.jit`.",
    limits="Reported from ten operations in a step on that take the host longer than the device. The host's time is "
    "this machine's. What a step is in a program without any jitted function is judged by the operation that takes "
    "most of the device's time.",
    in_run=find,
)
