"""Attention scores that are held whole."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from vtpu.analysis.program.large_values import LargeValue, ValueKind
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import counted, format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all scores of one shape, with their softmax, gradients and copies."""
    for value in subject.report.large_values:
        severity = of_hbm(value.bytes, subject.report.need_bytes, subject.limit_bytes)
        if value.kind is ValueKind.SCORES and severity > Severity.NOTE:
            yield _finding(subject, value, severity)


def _finding(subject: ProgramSubject, value: LargeValue, severity: Severity) -> Finding:
    arrays = sum(_copies(value, i) for i in range(len(value.items)))
    shape = "x".join(map(str, value.dims))
    return Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"attention scores {shape} are held whole: {format_bytes(value.bytes)} in "
        f"{counted(arrays, 'array')}, quadratic in the {value.size:,} positions",
        change="use a flash or splash attention kernel "
        "(`jax.experimental.pallas.ops.tpu.splash_attention`), or compute attention for blocks of about "
        f"{min(512, value.size):,} queries in a loop (`jax.lax.map`) under `jax.checkpoint`: then a block of scores is "
        "alive at a time",
        evidence=tuple(
            Evidence(
                what=f"{item.role} {item.name}, {item.shape_text}",
                amount=hbm_bytes(item.bytes),
                line=item.line,
            )
            for item in value.items
        ),
        cost=Cost(hbm=hbm_bytes(value.bytes)),
        line=next((i.line for i in value.items if i.line.line), subject.line or UNKNOWN_LINE),
        program=subject.name,
    )


def _copies(value: LargeValue, number: int) -> int:
    """How many arrays of scores an item holds: a loop may keep those of all layers in one."""
    shape = value.items[number].shape
    return prod(shape.dims) // prod(value.dims) if shape else 0


RULE = Rule(
    code="M108",
    slug="attention-scores",
    group=Group.MEMORY,
    title="Attention scores are held whole",
    why="Plain attention makes a score for every pair of a query and a key, for every head: an array that grows "
    "with the square of the sequence. The backward pass needs it again, so that it is kept for each layer, or "
    "computed again whole.",
    change="A flash or splash attention kernel, or blocks of queries under `jax.checkpoint`.",
    limits="Scores are recognised by a softmax over the result of a batched product, with at least 512 keys and no "
    "fewer than an eighth as many queries, where they are alive at the peak. Scores of one head and one "
    "sequence, without a batch, are not.",
    fixes=("checkpoint", "batch-size"),
    in_program=find,
)
