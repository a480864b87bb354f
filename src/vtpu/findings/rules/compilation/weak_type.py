"""A Python number first and an array afterwards, or the other way round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtpu.analysis.run.recompiles import Cause, Recompile
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

_WEAK = "{weak_type=True}"


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function."""
    for function, again in because_of(subject, Cause.WEAK_TYPE):
        names = _weak_arguments(again)
        which = ", ".join(names) or "an argument"
        yield Finding(
            rule=RULE.slug,
            severity=severity_of(again, function.calls),
            title=f"{python_name(function.name)}: {again_text(again)}, because {which} is a Python number in some "
            "calls and an array in others",
            change=f"pass {which} as an array of one type at every call: `jnp.float32(…)`, or `jnp.zeros((), dtype)` "
            "as the first value",
            evidence=evidence_of(subject, function, again),
            cost=cost_of(again),
            line=again[0].compilation.line,
            program=function.name,
        )


def _weak_arguments(again: Sequence[Recompile]) -> list[str]:
    found = [d.argument for r in again for d in r.differences if _WEAK in d.now + d.before]
    return list(dict.fromkeys(found))


RULE = Rule(
    code="C302",
    slug="weak-type",
    group=Group.COMPILATION,
    title="A function is compiled twice because an argument is a Python number first and an array later",
    why="A Python number has a weak type: it adapts to what it meets, while an array keeps its own. So `f(0.0)` and "
    "`f(jnp.float32(0))` are two programs, typically one for the first step and one for all others.",
    change="Start with an array of the type that the function returns.",
    limits="Known where JAX says so; a cause that hides behind another difference of the same call is not seen.",
    in_run=find,
)
