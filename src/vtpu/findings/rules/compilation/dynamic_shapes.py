"""A size that takes many values, with a program for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtpu.analysis.run.buckets import Buckets, choose_buckets
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile, Varying
from vtpu.analysis.run.shape_patterns import Pattern, Shapes, shapes_of
from vtpu.evidence import Basis
from vtpu.findings.compiles import (
    again_text,
    because_of,
    cost_of,
    python_name,
    seconds_of,
    severity_of,
)
from vtpu.findings.finding import Evidence, Finding, Severity, count, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.units import counted

_MOST_SHOWN = 6


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each function with a size that changes and changes."""
    for function, again in because_of(subject, Cause.SHAPE):
        shapes = shapes_of(function, again, subject.recording)
        if shapes.varying and shapes.pattern in (Pattern.CHANGING, Pattern.GROWING):
            yield _finding(subject, function, again, shapes, shapes.varying)


def _finding(
    subject: RunSubject,
    function: ProgramSummary,
    again: Sequence[Recompile],
    shapes: Shapes,
    varying: Varying,
) -> Finding:
    buckets = choose_buckets(shapes.calls)
    severity = severity_of(again, function.calls)
    name = _varying_name(subject, function, varying)
    return Finding(
        rule=RULE.slug,
        severity=min(severity, Severity.MEDIUM) if shapes.is_operation else severity,
        title=f"{python_name(function.name)}: {again_text(again)}, for {counted(len(shapes.calls), 'size')} of {name} "
        f"({_some(sorted(shapes.calls))}){_how(shapes)}",
        change=_change(name, shapes, buckets),
        evidence=(
            Evidence(what="sizes", amount=count(len(shapes.calls)), line=again[0].compilation.line),
            Evidence(what="calls", amount=count(function.calls)),
            Evidence(what="compiling again took", amount=seconds(seconds_of(again), Basis.MEASURED)),
            Evidence(what="padding, were sizes rounded up to " + _some(buckets.sizes), amount=share(buckets.padding, Basis.SIMULATED)),
        ),
        cost=cost_of(again),
        line=again[0].compilation.line,
        program=function.name,
    )  # fmt: skip


def _how(shapes: Shapes) -> str:
    return "; it grows with every call" if shapes.pattern is Pattern.GROWING else ""


def _change(name: str, shapes: Shapes, buckets: Buckets) -> str:
    few = f"pad {name} to one of {_some(buckets.sizes)} and mask the rest: {counted(len(buckets.sizes), 'program')}, {buckets.padding:.0%} padding"
    if shapes.pattern is not Pattern.GROWING or shapes.is_operation:
        return few
    return (
        f"allocate it at its final size ({max(shapes.calls)} or what the longest case needs) and write into it with "
        f"`jax.lax.dynamic_update_slice`: one program, and its memory can be donated; or {few}"
    )


def _varying_name(subject: RunSubject, function: ProgramSummary, varying: Varying) -> str:
    """The argument with the dimension: `dimension 1 of cache`."""
    array, axis = varying.places[0]
    module = subject.times.module(function.compilations[0].program)
    parameters = module.parameters() if module else ()
    name = parameters[array].op_name if array < len(parameters) else "the result"
    return f"dimension {axis} of {name or 'the argument'}"


def _some(sizes: Sequence[int]) -> str:
    """Sizes in words; of many the first and the last."""
    if len(sizes) <= _MOST_SHOWN:
        return ", ".join(map(str, sizes))
    return ", ".join([*map(str, sizes[: _MOST_SHOWN - 2]), "…", str(sizes[-1])])


RULE = Rule(
    code="C308",
    slug="dynamic-shapes",
    group=Group.COMPILATION,
    title="A size changes from call to call, and each value is compiled anew",
    why="XLA compiles for shapes: a sequence of 97 tokens and one of 98 are two programs. Where lengths vary freely "
    "nearly every call compiles, and every program stays in memory.",
    change="Round the size up to one of a few (buckets) and mask what is padded; or allocate the largest size once "
    "and write into it.",
    limits="The buckets fit the sizes of this run: at most four, the fewest that pad by a tenth, rounded up to 8 or "
    "128. Whether padding changes the result is for the program to say. Sizes of a sharded array are those "
    "on one device. Functions whose shapes differ in several sizes that do not go together are new-shapes.",
    fixes=("buckets",),
    in_run=find,
)
