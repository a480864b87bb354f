"""jax_enable_x64 switched between calls."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.recompiles import Cause
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


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function."""
    for function, again in because_of(subject, Cause.X64):
        yield Finding(
            rule=RULE.slug,
            severity=severity_of(again, function.calls),
            title=f"{python_name(function.name)}: {again_text(again)}, because jax_enable_x64 was switched in between",
            change='set `jax.config.update("jax_enable_x64", …)` once, before the first array is made; on a TPU, whose '
            "units have no 64-bit floating point, leave it off and use float32",
            evidence=evidence_of(subject, function, again),
            cost=cost_of(again),
            line=again[0].compilation.line,
            program=function.name,
        )


RULE = Rule(
    code="C306",
    slug="x64-flag",
    group=Group.COMPILATION,
    title="Functions are compiled twice because jax_enable_x64 was switched",
    why="The switch is a part of what JAX finds programs by: every function that is called with both settings is "
    "traced and compiled for both, and arrays made before and after have other types.",
    change="Set it once, at the start.",
    limits="Seen where a function was called with both settings.",
    in_run=find,
)
