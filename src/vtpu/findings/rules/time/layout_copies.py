"""Copies and transposes that compute nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtpu.analysis.bottlenecks.copies import ArrayCopy, array_copies
from vtpu.analysis.program.argument_roles import tree_of
from vtpu.findings.finding import Cost, Evidence, Finding, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at, place
from vtpu.units import format_bytes, format_seconds

_LEAST = 0.01  # of the step


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of copies into another layout, one of copies that change nothing."""
    copies = _copies(subject)
    yield from _finding(subject, [c for c in copies if c.changes_layout], changes_layout=True)
    yield from _finding(subject, [c for c in copies if not c.changes_layout], changes_layout=False)


def _copies(subject: ProgramSubject) -> list[ArrayCopy]:
    """Those of a program; what is copied around a resharding is another finding."""
    module, report = subject.module, subject.report
    if module is None or report.time is None or report.memory is None:
        return []
    apart = {number for r in subject.reshards for number in r.around}
    rows = [row for row in report.time.rows if row.instruction.id not in apart]
    return list(array_copies(module, rows))


def _finding(
    subject: ProgramSubject, copies: Sequence[ArrayCopy], *, changes_layout: bool
) -> Iterable[Finding]:
    spent = sum(copy.row.seconds for copy in copies)
    step = subject.step_s
    if not copies or not step or spent < _LEAST * step:
        return
    moved = sum(copy.row.hbm_bytes or 0 for copy in copies)
    worst = copies[0]
    what = "change only the layout of arrays" if changes_layout else "copy arrays as they are"
    yield Finding(
        rule=RULE.slug,
        severity=of_time(spent, subject),
        title=f"{format_seconds(spent)} of {format_seconds(step)} {what}: {format_bytes(moved)} of HBM, most for "
        f"{_name(worst)}{at(worst.row.line)}",
        change=_change(worst) if changes_layout else _change_same(worst),
        evidence=tuple(_evidence(c) for c in copies if c.row.seconds >= _LEAST * spent),
        cost=Cost(step=seconds(spent)),
        line=worst.row.line,
        program=subject.name,
    )


def _name(copy: ArrayCopy) -> str:
    return copy.argument or f"{copy.source.element_type.xla_name}{list(copy.source.dims)}"


def _change(copy: ArrayCopy) -> str:
    order = ", ".join(str(copy.target.dims[d]) for d in reversed(copy.target.layout.minor_to_major))
    if copy.argument:
        return (
            f"keep {tree_of(copy.argument)} in the order in which it is used, ({order}) with the last one "
            "innermost: transpose it once where it is made, or let the compiler choose "
            "(`jax.experimental.layout.Layout.AUTO` in `in_shardings`)"
        )
    return (
        f"have the dimensions of {_name(copy)} in one order where it is made and where it is used "
        f"({place(copy.row.line)}): it is wanted as ({order}) with the last one innermost"
    )


def _change_same(copy: ArrayCopy) -> str:
    if copy.argument and copy.is_donated:
        return (
            f"do not donate {tree_of(copy.argument)}, or not for this result: it is still read when the result is "
            "written, so that it is copied first"
        )
    if copy.argument:
        return f"donate {tree_of(copy.argument)}, so that what updates it may do so in its place"
    if copy.is_of_loop:
        return (
            f"carry {_name(copy)} through the loop{at(copy.row.line)} and update it in place (`.at[i].set`), "
            "instead of taking it apart and stacking it again as `xs` and `ys` of `jax.lax.scan`"
        )
    return f"use {_name(copy)} for the last time where it is updated, so that this may happen in its place"


def _evidence(copy: ArrayCopy) -> Evidence:
    runs = f", {copy.row.time.runs:g} times" if copy.row.time.runs > 1 else ""
    what = f"{copy.row.instruction.name}: {copy.source} to {copy.target}{runs}"
    return Evidence(what=what, amount=seconds(copy.row.seconds), line=copy.row.line)


RULE = Rule(
    code="T407",
    slug="layout-copies",
    group=Group.TIME,
    title="Copies and transposes that compute nothing",
    why="The compiler gives each array one layout. Where operations want different ones, where a program "
    "transposes, or where a loop takes an array apart and stacks it again, arrays are read and written once "
    "more for nothing but their order or place.",
    change="Store arrays in the order of dimensions in which they are used, write products so that they need no "
    "transpose, let the compiler choose the layout of arguments, donate what is updated.",
    limits="Copies that run beside the core, as prefetches into VMEM, are left out, and so are transposes "
    "inside of fusions that compute. Layouts of results that the user asks for may need the copy.",
    fixes=("donate",),
    in_program=find,
)
