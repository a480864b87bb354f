"""Arguments of another shape, type, structure or sharding at the same call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtpu.analysis.run.definitions import is_operation
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile
from vtpu.analysis.run.shape_patterns import Pattern, shapes_of
from vtpu.findings.compiles import (
    again_text,
    because_of,
    cost_of,
    differences_of,
    evidence_of,
    python_name,
    severity_of,
)
from vtpu.findings.finding import Finding, Severity
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject

_CAUSES = (Cause.SHAPE, Cause.TYPE, Cause.STRUCTURE, Cause.SHARDING)
_OTHERS = (Pattern.CHANGING, Pattern.GROWING, Pattern.LAST_BATCH)  # other rules' own


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function of the user's."""
    for function, again in because_of(subject, *_CAUSES):
        first = next(p for p in subject.recording.programs if p.number == again[0].compilation.program)  # fmt: skip
        pattern = shapes_of(function, again, subject.recording).pattern
        if is_operation(first) or pattern in _OTHERS:
            continue
        yield _finding(subject, function, again, pattern)


def _finding(
    subject: RunSubject, function: ProgramSummary, again: Sequence[Recompile], pattern: Pattern
) -> Finding:
    here = [r for r in again if r.is_same_place]
    severity = min(severity_of(here, function.calls), Severity.MEDIUM)
    is_meant = not here or pattern is Pattern.BUCKETS
    return Finding(
        rule=RULE.slug,
        severity=Severity.NOTE if is_meant else severity,
        title=f"{python_name(function.name)}: {again_text(again)}, for {again[0].cause}{_what(differences_of(subject, function, again[0]))}",
        change=_CHANGES[again[0].cause],
        evidence=evidence_of(subject, function, again),
        cost=cost_of(again),
        line=again[0].compilation.line,
        program=function.name,
    )


def _what(differences: Sequence[str]) -> str:
    """What is different, of the first argument that is."""
    if not differences:
        return ""
    more = len(differences) - 1
    return f" ({differences[0]}{f', and {more} more' if more else ''})"


_CHANGES = {
    Cause.SHAPE: "give the function one shape: pad to the larger and mask the rest; or call it for the rare shape "
    "where waiting does not matter",
    Cause.TYPE: "convert the argument to one type before the call (`x.astype(…)`), at best where it is made",
    Cause.STRUCTURE: "always pass the same structure: zeros or a mask of ones instead of None, the same keys in a dictionary",
    Cause.SHARDING: "lay the first value out as the later ones are: `jax.device_put(x, sharding)` or `out_shardings` "
    "where it is made",
}


RULE = Rule(
    code="C301",
    slug="new-shapes",
    group=Group.COMPILATION,
    title="A function is compiled again because an argument has another shape, type, structure or sharding",
    why="A program is compiled for the shapes, types, structure and shardings of its arguments. Another one means "
    "tracing and compiling the whole function again, and a second program in memory.",
    change="Make the arguments alike at every call: pad shapes, convert types, pass the same structure, lay arrays "
    "out once.",
    limits="Reported for calls from one place in the program; a function that two places use with two shapes is a "
    "note. One size that takes many values is dynamic-shapes, a smaller last batch last-batch. JAX's own "
    "operations outside jit are not reported here.",
    fixes=("buckets",),
    in_run=find,
)
