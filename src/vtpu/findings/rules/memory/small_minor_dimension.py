"""Large arrays with a minor dimension far below the tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.padding import PaddedItem
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.padding import is_far_below, once_per_shape, padding_in_hbm
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.program.memory import AllocationKind
from vtpu.units import format_bytes

_LEAST_PART = 0.02


def in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all such arrays at the peak."""
    if subject.calls is None:
        yield from _finding(subject, set())


def in_run(subject: RunSubject) -> Iterable[Finding]:
    """The same for each program, without arrays of shapes that were told of another one."""
    yield from once_per_shape(subject, _finding)


def _finding(subject: ProgramSubject, told: set[str]) -> Iterator[Finding]:
    rows = [r for r in padding_in_hbm(subject, told) if is_far_below(r.cause)]
    size = sum(row.wasted_bytes for row in rows)
    severity = of_hbm(size, subject.report.need_bytes, subject.limit_bytes)
    if severity is Severity.NOTE:
        return
    first = rows[0]
    named = [row for row in rows if row.wasted_bytes >= size * _LEAST_PART]
    told.update(row.item.shape_text for row in named)
    yield Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"{_name(first.item)} ({first.item.shape_text}) takes {first.factor:.1f} times its elements: its "
        f"{first.cause.kind} of {first.cause.size} becomes {first.cause.padded}{_others(rows, size)}",
        change=_change(first),
        evidence=tuple(map(_evidence, named)),
        cost=Cost(hbm=hbm_bytes(size)),
        line=first.item.line if first.item.line.line else subject.line or UNKNOWN_LINE,
        program=subject.name,
    )


def _name(item: MemoryItem) -> str:
    return f"{item.role} {item.name}"


def _others(rows: list[PaddedItem], size: int) -> str:
    more = f"; with {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{more}, {format_bytes(size)} of nothing"


def _change(row: PaddedItem) -> str:
    shape, cause = row.shape, row.cause
    dimension = cause.dimension if cause.dimension is not None else len(shape.dims) - 1
    wide = max(range(len(shape.dims)), key=lambda d: shape.dims[d])
    is_argument = row.item.occupant.kind is AllocationKind.ARGUMENT
    where = "keep it so that" if is_argument else "compute it so that"
    merge = f"merge dimension {dimension} with dimension {_beside(dimension)} (`reshape`)"
    if wide == dimension or shape.dims[wide] < cause.tile:
        return f"{merge}, or choose a multiple of {cause.tile}"
    return (
        f"{where} dimension {wide} ({shape.dims[wide]:,}) is the last (`transpose`), or {merge}, or make "
        f"dimension {dimension} a multiple of {cause.tile}"
    )


def _beside(dimension: int) -> int:
    return dimension - 1 if dimension else 1


def _evidence(row: PaddedItem) -> Evidence:
    return Evidence(
        what=f"{_name(row.item)}, {row.item.shape_text} in tiles of {'x'.join(map(str, row.tile))}: "
        f"{row.factor:.1f} times {format_bytes(row.logical_bytes)}",
        amount=hbm_bytes(row.wasted_bytes),
        line=row.item.line,
    )


RULE = Rule(
    code="M105",
    slug="small-minor-dimension",
    group=Group.MEMORY,
    title="A large array has a minor dimension far below the tile",
    why="The last dimension in memory is rounded up to 128 elements and the one before it to 8 (16 of 16-bit and "
    "32 of 8-bit types). An array whose minor dimension is 1, 2 or 64 takes many times its elements, and "
    "every operation on it moves the padding too.",
    change="Let a large dimension be the last, merge the small one with its neighbour, or make it a multiple "
    "of the tile.",
    limits="The compiler chooses layouts and often puts a small dimension outside by itself; the rule looks at what "
    "it chose. Padding that adds less than the elements is told by tile-padding.",
    fixes=("pad-dimension",),
    in_program=in_program,
    in_run=in_run,
)
