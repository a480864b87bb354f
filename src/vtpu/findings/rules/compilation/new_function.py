"""A function that is made anew in each iteration, so that JAX does not know it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from vtpu.analysis.run.definitions import is_operation
from vtpu.analysis.run.programs import ProgramSummary
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
from vtpu.findings.words import quoted

_FEWEST_DIFFERENT = 4  # functions that differ: two or three may be what is meant


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each place that makes functions."""
    for function, again in because_of(subject, Cause.NEW_FUNCTION):
        if _is_one_after_the_other(subject, function) and _is_repeated(function, again):
            yield _finding(subject, function, again)


def _is_repeated(function: ProgramSummary, again: Sequence[Recompile]) -> bool:
    """Whether the same program was compiled again, or so many that differ that they are made in a loop."""
    return function.distinct < function.compiles or len(again) >= _FEWEST_DIFFERENT


def _is_one_after_the_other(subject: RunSubject, function: ProgramSummary) -> bool:
    """Whether no program was executed after the next one came: functions that are kept are used again."""
    numbers = [c.program for c in function.compilations if c.error is None]
    spans = [subject.executed_between(number) for number in numbers]
    used = [span for span in spans if span]
    return all(a[1] < b[0] for a, b in pairwise(used))


def _finding(subject: RunSubject, function: ProgramSummary, again: Sequence[Recompile]) -> Finding:
    line = again[0].compilation.line
    same = "the same program" if function.distinct == 1 else "a program"
    return Finding(
        rule=RULE.slug,
        severity=severity_of(again, function.calls),
        title=f"{python_name(function.name)} is a new function each time: {same} {again_text(again)}",
        change=_change(subject, again[0]),
        evidence=evidence_of(subject, function, again),
        cost=cost_of(again),
        line=line,
        program=function.name,
    )


def _change(subject: RunSubject, again: Recompile) -> str:
    text = subject.files.text(again.compilation.line)
    instead = f" instead of {quoted(text)}" if text else ""
    number = again.compilation.program
    record = next(p for p in subject.recording.programs if p.number == number)
    if is_operation(record):
        return f"jit a function that does this, once before the loop, and call that{instead}"
    return (
        f"make the jitted function once, before the loop, and call that{instead}; what changes from one to the next "
        "becomes an argument"
    )


RULE = Rule(
    code="C304",
    slug="new-function",
    group=Group.COMPILATION,
    title="A function is jitted anew in each iteration",
    why="JAX finds a compiled program by the function object. `jax.jit(lambda x: …)` in a loop, a function that is "
    "defined in the loop, or `jax.jit(functools.partial(f, i))` is a new object each time, so it is traced and "
    "compiled each time, even when the program is the same. So is a new lambda in `jax.lax.scan` outside jit.",
    change="Define and jit the function once, outside the loop.",
    limits="Functions that differ are reported from the fifth on, and only where each is used up before the next is "
    "made. What JAX's persistent compilation cache would save is not considered.",
    in_run=find,
)
