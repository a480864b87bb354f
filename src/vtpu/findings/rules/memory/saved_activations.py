"""Activations that are kept for the backward pass and could be computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import isqrt

from vtpu.analysis.program.saved_activations import Kept
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import counted, format_bytes

_LEAST_STEPS = 2
_FULL = 0.5  # of HBM: a program that needs less has room for what it keeps
_MOST_OF_PROGRAM = 0.5


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of each loop, or of layers that are written out."""
    told = {i for value in subject.report.large_values for i in value.items}
    for kept in subject.report.kept:
        rest = replace(kept, items=tuple(i for i in kept.items if i not in told))
        if kept.is_checkpointed or kept.steps < _LEAST_STEPS or not rest.items:
            continue
        severity = _severity(subject, rest.freed_bytes)
        if severity > Severity.NOTE:
            yield _finding(subject, rest, severity)


def _severity(subject: ProgramSubject, freed: int) -> Severity:
    """What is kept costs nothing where there is room for it, and computing it again would cost time."""
    need, limit = subject.report.need_bytes, subject.limit_bytes
    if not need or not limit:
        return Severity.NOTE
    if need > limit:
        return Severity.HIGH if need - freed <= limit else by_share(freed, limit)
    of_hbm = by_share(freed, limit)
    if need >= limit * _FULL or of_hbm is Severity.HIGH:
        return min(of_hbm, Severity.MEDIUM)
    return min(of_hbm, Severity.LOW) if freed >= need * _MOST_OF_PROGRAM else Severity.NOTE


def _finding(subject: ProgramSubject, kept: Kept, severity: Severity) -> Finding:
    return Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"activations of {_what(kept)} are kept for the backward pass: {format_bytes(kept.bytes)}; "
        f"`jax.checkpoint` could free about {format_bytes(kept.freed_bytes)}",
        change=_change(kept),
        evidence=_evidence(kept),
        cost=Cost(hbm=hbm_bytes(kept.freed_bytes, Basis.MODELLED)),
        line=kept.line if kept.line.line else subject.line or UNKNOWN_LINE,
        program=subject.name,
    )


def _what(kept: Kept) -> str:
    if not kept.loops:
        return counted(kept.steps, "layer")
    loops = f" in {kept.loops} loops" if kept.loops > 1 else ""
    return f"{counted(kept.steps, 'step')} of a scan{loops}"


def _change(kept: Kept) -> str:
    if kept.has_many_steps:
        block = isqrt(kept.steps)
        return (
            f"nest checkpoints: `jax.checkpoint` on the step, and on blocks of about {block} steps (a `lax.scan` within a "
            f"`lax.scan`): of {kept.steps:,} states about {2 * block} are kept then, for one more forward pass"
        )
    if kept.loops:
        return (
            "put `jax.checkpoint` around the body of the scan: each step keeps its carry only, for one more forward "
            "pass; `policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable` keeps the products too"
        )
    return (
        "put `jax.checkpoint` around each layer, or the layers into a `jax.lax.scan` with a checkpointed body: each "
        "keeps its input only, for one more forward pass"
    )


def _evidence(kept: Kept) -> tuple[Evidence, ...]:
    groups = Counter((i.shape_text, i.line) for i in kept.items)
    sizes = Counter[object]()
    for item in kept.items:
        sizes[item.shape_text, item.line] += item.bytes
    rows = [
        Evidence(what=f"{number} x {shape}", amount=hbm_bytes(sizes[shape, line]), line=line)
        for (shape, line), number in groups.items()
    ]
    rows.sort(key=lambda row: -(row.amount.value if row.amount else 0))
    carries = Evidence(
        what="what each checkpointed step would keep",
        amount=hbm_bytes(kept.carry_bytes, Basis.MODELLED),
    )
    return (*rows, carries)


RULE = Rule(
    code="M109",
    slug="saved-activations",
    group=Group.MEMORY,
    title="Activations of all layers or steps are kept for the backward pass",
    why="The backward pass needs what the forward pass computed. Without `jax.checkpoint` every layer of a scan keeps "
    "all of it, stacked; so does every step of a simulation. With it a step keeps its input and "
    "computes the rest again, for about a third more work.",
    change="`jax.checkpoint` around the body of the scan or around each layer; nested checkpoints where there are "
    "many steps.",
    limits="What would be freed is estimated: what is stacked, without the carry; of layers that are written out, "
    "without the smallest array that each keeps. In a program with room for it this is low, for "
    "computing again costs time. Logits and attention scores are told by rules of their own, and what comes "
    "from below a `jax.checkpoint` is taken to be kept on purpose.",
    fixes=("checkpoint", "offload"),
    in_program=find,
)
