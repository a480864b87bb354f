"""A static argument that takes several values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile
from vtpu.findings.compiles import (
    again_text,
    because_of,
    cost_of,
    evidence_of,
    name_of,
    python_name,
    severity_of,
)
from vtpu.findings.finding import Finding, Severity
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject

_ADDRESS = re.compile(r"<(?:[\w<>]+\.)*(?P<type>\w+) object at 0x\w+>")
_MOST_SHOWN = 4


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function."""
    for function, again in because_of(subject, Cause.STATIC):
        yield _finding(subject, function, again)


def _finding(subject: RunSubject, function: ProgramSummary, again: Sequence[Recompile]) -> Finding:
    here = [r for r in again if r.is_same_place]
    severity = min(severity_of(here, function.calls), Severity.MEDIUM)
    path = again[0].differences[0].argument if again[0].differences else "arguments"
    name = name_of(subject, function, again[0], path)
    return Finding(
        rule=RULE.slug,
        severity=severity if here else Severity.NOTE,
        title=f"{python_name(function.name)}: {again_text(again)}, for other values of static {name}: {_values(again)}",
        change=_change(name, again),
        evidence=evidence_of(subject, function, again),
        cost=cost_of(again),
        line=again[0].compilation.line,
        program=function.name,
    )


def _values(again: Sequence[Recompile]) -> str:
    """The values in the order in which they came."""
    pairs = [r.differences[0] for r in again if r.differences]
    values = list(dict.fromkeys([*(d.before for d in pairs[:1]), *(d.now for d in pairs)]))
    match = _ADDRESS.fullmatch(values[0]) if values else None
    if match:
        return f"a new {match['type']} each time"
    shown = ", ".join(values[:_MOST_SHOWN])
    return f"{shown}, …" if len(values) > _MOST_SHOWN else shown or "not known"


def _change(name: str, again: Sequence[Recompile]) -> str:
    if any(_ADDRESS.search(d.now) for r in again for d in r.differences):
        return (
            f"{name} is compared by identity: make the object once, or give its class `__eq__` and `__hash__` by its "
            "contents (a frozen dataclass has them), so that equal ones share a program"
        )
    return (
        f"pass {name} as an ordinary argument (`jnp.where` or `jax.lax.cond` instead of `if`) where it changes often; "
        "a value that is needed as a Python number has a program of its own, so let it take few values"
    )


RULE = Rule(
    code="C303",
    slug="static-argument",
    group=Group.COMPILATION,
    title="A function is compiled again for another value of a static argument",
    why="A static argument (`static_argnames`, a static field of a dataclass) is a part of the program: each value "
    "is traced and compiled by itself. A step number, a learning rate or an object that is made anew each time "
    "compiles at every call.",
    change="Make what changes an ordinary argument; keep static what takes few values.",
    limits="Two values from two places in the program (training and evaluation) are meant, and a note. Which values "
    "differ is known as far as JAX says it.",
    in_run=find,
)
