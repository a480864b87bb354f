"""Host arrays whose contents go to the device again in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from vtpu.analysis.run.loop import Repeated, repeated
from vtpu.analysis.run.sent_again import sent_again
from vtpu.analysis.run.step_if import without_bytes
from vtpu.analysis.source.functions import kept_in_loop
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import in_steps, quoted, shape_text
from vtpu.units import KIB, format_bytes

_SMALLEST = KIB
_MATTERS = 64 * KIB  # bytes per step: less is a note


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each line that sends the same bytes in most steps."""
    loop = subject.loop
    if loop is None:
        return
    places = sent_again(subject.recording, loop, smallest=_SMALLEST)
    for line in repeated(subject.recording, subject.lines, loop, places):
        yield _finding(subject, line)


def _finding(subject: RunSubject, line: Repeated) -> Finding:
    saved = subject.saved_if(without_bytes(subject.recording.events, line.events)) or 0.0
    matters = line.bytes_per_step >= _MATTERS
    shapes = _shapes(subject, line)
    names = kept_in_loop(subject.files.get(line.line.file), line.line.line)
    what = quoted(names[0]) if len(names) == len(shapes) == 1 else f"an array {shapes[0]}"
    more = f" and {len(shapes) - 1} more" if len(shapes) > 1 else ""
    return Finding(
        rule=RULE.slug,
        severity=max(by_share(saved, subject.step_s), Severity.LOW if matters else Severity.NOTE),
        title=f"{what}{more} goes to the device {in_steps(line)} though its contents never change: "
        f"{format_bytes(round(line.bytes_per_step))} each time",
        change=f"send it once, before the loop: `{_sent_once(names, shapes)}`",
        evidence=(
            Evidence(what="transfers of the same bytes", amount=count(len(line.events)), line=line.line),
            Evidence(what="bytes of all", amount=hbm_bytes(line.bytes, Basis.SIMULATED), text=", ".join(shapes)),
            Evidence(what="a step is shorter without these bytes by", amount=seconds(saved)),
        ),
        cost=Cost(step=seconds(saved)),
        line=line.line,
    )  # fmt: skip


def _sent_once(names: Sequence[str], shapes: Sequence[str]) -> str:
    name = names[0] if len(names) == len(shapes) == 1 else "x"
    return f"{name} = jax.device_put({name})"


def _shapes(subject: RunSubject, line: Repeated) -> list[str]:
    """The shapes that are sent, largest first: f32[128,1024]."""
    recording = subject.recording
    numbers = np.unique(recording.events["detail"][line.events]).tolist()
    found = [shape for number in numbers if (shape := recording.shape(number))]
    return [shape_text(s) for s in sorted(found, key=lambda s: -s.logical_bytes)]


RULE = Rule(
    code="X203",
    slug="host-array-sent-again",
    group=Group.TRANSFERS,
    title="The same host array is sent to the device again in each step",
    why="An argument that is a numpy array is sent at every call, also when its contents are those of the "
    "call before: a mask, a table, positions. That takes the host's time and the link, and the step begins "
    "when the bytes have arrived.",
    change="Make it a JAX array once, before the loop: `table = jax.device_put(table, sharding)`.",
    limits="Contents are compared by a fingerprint, which of arrays above 256 KiB looks at 64 pieces: an array "
    "that changes only between these is taken for the same. Arrays that are not row-major have none. A batch "
    "that comes again in each epoch is not reported. A benchmark that repeats one batch is, rightly.",
    fixes=("keep-on-device",),
    in_run=find,
)
