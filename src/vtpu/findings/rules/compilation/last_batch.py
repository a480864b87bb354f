"""The last batch of an epoch is smaller, and has a program of its own."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.recompiles import Cause
from vtpu.analysis.run.shape_patterns import Pattern, shapes_of
from vtpu.findings.compiles import (
    again_text,
    because_of,
    cost_of,
    evidence_of,
    python_name,
    severity_of,
)
from vtpu.findings.finding import Finding
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.units import counted


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function that gets a smaller batch now and then."""
    for function, again in because_of(subject, Cause.SHAPE):
        shapes = shapes_of(function, again, subject.recording)
        if shapes.pattern is not Pattern.LAST_BATCH or shapes.varying is None:
            continue
        whole, rest = shapes.varying.sizes
        yield Finding(
            rule=RULE.slug,
            severity=severity_of(again, function.calls),
            title=f"{python_name(function.name)}: {again_text(again)}, for a batch of {rest} instead of {whole}, "
            f"which comes in {counted(shapes.calls[rest], 'call')} of {function.calls}",
            change=f"drop the last batch (`drop_remainder=True`, `drop_last=True`), or pad it from {rest} to {whole} and "
            "leave the padding out of the loss",
            evidence=evidence_of(subject, function, again),
            cost=cost_of(again),
            line=again[0].compilation.line,
            program=function.name,
        )


RULE = Rule(
    code="C305",
    slug="last-batch",
    group=Group.COMPILATION,
    title="The last batch of an epoch is smaller and compiles a second program",
    why="When the data set is no multiple of the batch, the last batch of each epoch has another shape: the step "
    "is compiled a second time, in the middle of training, and both programs stay in memory.",
    change="Drop the remainder, or pad it to the full batch and mask the padding.",
    limits="A second, smaller leading size at the same place in the program is taken for a last batch when it comes "
    "in at most half as many calls.",
    fixes=("buckets",),
    in_run=find,
)
