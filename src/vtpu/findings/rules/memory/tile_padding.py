"""Bytes that tiles add to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.padding import PaddedItem, PaddingKind
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.padding import is_far_below, once_per_shape, padding_in_hbm
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.units import format_bytes

_LEAST_PART = 0.02  # of the padding: smaller arrays are not named


def in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all arrays at the peak that pad, but for those with a dimension far below its tile."""
    if subject.calls is None:
        yield from _finding(subject, set())


def in_run(subject: RunSubject) -> Iterable[Finding]:
    """The same for each program, without arrays of shapes that were told of another one."""
    yield from once_per_shape(subject, _finding)


def _finding(subject: ProgramSubject, told: set[str]) -> Iterator[Finding]:
    rows = [r for r in padding_in_hbm(subject, told) if not is_far_below(r.cause)]
    size = sum(row.wasted_bytes for row in rows)
    severity = of_hbm(size, subject.report.need_bytes, subject.limit_bytes)
    usage = subject.report.usage
    if severity is Severity.NOTE or usage is None or usage.hbm is None:
        return
    first = rows[0]
    named = [row for row in rows if row.wasted_bytes >= size * _LEAST_PART]
    told.update(row.item.shape_text for row in named)
    yield Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"{format_bytes(size)} of HBM at the peak are padding, {size / usage.hbm.peak_bytes:.0%} of it, first of "
        f"all of {_name(first.item)} ({first.item.shape_text})",
        change=_change(first),
        evidence=tuple(_evidence(row) for row in named),
        cost=Cost(hbm=hbm_bytes(size)),
        line=first.item.line if first.item.line.line else subject.line or UNKNOWN_LINE,
        program=subject.name,
    )


def _name(item: MemoryItem) -> str:
    return f"{item.role} {item.name}"


def _evidence(row: PaddedItem) -> Evidence:
    cause = row.cause
    why = f"{cause.size} becomes {cause.padded}" if cause.dimension is not None else str(cause.kind)
    return Evidence(
        what=f"{_name(row.item)}, {row.item.shape_text}: {row.factor:.2f} times its elements, {why}",
        amount=hbm_bytes(row.wasted_bytes),
        line=row.item.line,
    )


def _change(row: PaddedItem) -> str:
    cause = row.cause
    if cause.dimension is None:
        return _OTHERS.get(cause.kind, "choose another shape or type")
    sizes = " or ".join(f"{n:,}" for n in cause.sizes_that_fill)
    merge = ", or merge it with the dimension beside it (`reshape`)" if row.shape.dims[1:] else ""
    return (
        f"dimension {cause.dimension} of {row.item.shape_text} is {cause.size:,} and takes {cause.padded:,}: choose a "
        f"size that fills its tiles of {cause.tile} ({sizes}; up to {cause.padded:,} it takes nothing more){merge}"
    )


_OTHERS = {
    PaddingKind.RANK: "give the array more dimensions, so that it fills the tile",
    PaddingKind.STORAGE: "its elements are stored wider than they are: pack several into one of a wider type",
    PaddingKind.SCALAR: "put many scalars into one array",
}


RULE = Rule(
    code="M104",
    slug="tile-padding",
    group=Group.MEMORY,
    title="Tiles pad arrays, and that matters",
    why="An array lies in HBM in tiles, of 8 by 128 elements of 32 bits for instance. Its two minor dimensions "
    "are rounded up to them: 12 becomes 16, 50,257 becomes 50,304. What is added holds nothing.",
    change="Choose sizes that fill the tiles (vocabulary, heads, classes), or merge a small dimension with "
    "its neighbour.",
    limits="Layouts of temporaries are the compiler's and may be others after the change. Arrays with a dimension "
    "that takes less than half of its tile are told by small-minor-dimension.",
    fixes=("pad-dimension",),
    in_program=in_program,
    in_run=in_run,
)
