"""The section of a run's report about programs that did not compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from vtpu.analysis.run.programs import Compilation, ProgramSummary
from vtpu.analysis.run.refused import CompileOutOfMemory
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Line,
    NoFigure,
    Note,
    Section,
    Table,
)
from vtpu.units import format_bytes

_MOST_ROWS = 20
_MOST_BUFFERS = 3  # of each program
_LEAST_PART = 100  # of what it needs

_SourceLines = Callable[[SourceLine], Line]
_Refused = tuple[str, SourceLine, str, CompileOutOfMemory | None]


def refused_sections(
    programs: Iterable[ProgramSummary], line: _SourceLines, recording_path: str | None
) -> tuple[Section, ...]:
    """What the compiler refused; where memory was the reason by how much, and the largest buffers.

    `recording_path`: where the recording was saved, for who wants to know more.
    """
    found = Counter(_refused(p, c) for p in programs for c in p.compilations if c.error)
    if not found:
        return ()
    causes = list({c: name for name, _, _, c in found if c}.items())
    blocks: list[Block] = [_errors(found, line)]
    if large := [(name, c) for c, name in causes if c.largest or c.kernel]:
        blocks.append(_largest(large, line))
    if causes:
        blocks.append(Note(_more(recording_path)))
    return (Section("Programs that did not compile", tuple(blocks)),)


def _refused(program: ProgramSummary, compilation: Compilation) -> _Refused:
    return program.name, compilation.line, compilation.error or "", compilation.out_of_memory


def _errors(found: Counter[_Refused], line: _SourceLines) -> Table:
    """Each refusal once. Without a lack of memory there are no sizes to show."""
    has_sizes = any(cause for *_, cause in found)
    shown = list(found.items())[:_MOST_ROWS]
    rows = tuple(
        (
            name,
            *(_sizes(cause) if has_sizes else ()),
            Count(times),
            line(place),
            error,
        )
        for (name, place, error, cause), times in shown
    )
    columns = (
        Column("program"),
        *(_SIZE_COLUMNS if has_sizes else ()),
        Column("times", Basis.SIMULATED),
        Column("line"),
        Column("error", Basis.COMPILER, wraps=True),
    )
    return Table(columns, rows, len(found) - len(shown))


_SIZE_COLUMNS = (
    Column("lacks"),
    Column("needs", Basis.COMPILER),
    Column("may have", Basis.COMPILER),
    Column("over by", Basis.COMPILER),
)


def _sizes(cause: CompileOutOfMemory | None) -> tuple[Cell, ...]:
    if cause is None:
        return (NoFigure(),) * len(_SIZE_COLUMNS)
    sizes = (cause.need_bytes, cause.limit_bytes, cause.over_bytes)
    return cause.space.upper(), *(NoFigure() if n is None else Bytes(n) for n in sizes)


def _largest(causes: list[tuple[str, CompileOutOfMemory]], line: _SourceLines) -> Table:
    """What takes most at the peak of each program."""
    rows = tuple(
        row
        for name, cause in causes[:_MOST_ROWS]
        for row in _rows_of(_title(name, cause), cause, line)
    )
    columns = (
        Column("largest of"),
        Column("bytes", Basis.COMPILER),
        Column("padding", Basis.COMPILER, is_minor=True),
        Column("buffer"),
        Column("shape"),
        Column("role"),
        Column("layer", is_minor=True),
        Column("line"),
    )
    return Table(columns, rows)


def _title(name: str, cause: CompileOutOfMemory) -> str:
    """Programs of one name differ in what they need."""
    return name if cause.need_bytes is None else f"{name}, {format_bytes(cause.need_bytes)}"


def _rows_of(
    title: str, cause: CompileOutOfMemory, line: _SourceLines
) -> tuple[tuple[Cell, ...], ...]:
    if cause.kernel:
        need = NoFigure() if cause.need_bytes is None else Bytes(cause.need_bytes)
        where = line(cause.line) if cause.line and cause.line.line else ""
        return ((title, need, NoFigure(), cause.kernel, "", "kernel", "", where),)
    return tuple(
        (
            title,
            Bytes(b.bytes),
            NoFigure() if b.padding_bytes is None else Bytes(b.padding_bytes),
            b.name,
            b.shape or "",
            b.role,
            b.layer,
            line(b.line) if b.line.line else "",
        )
        for b in cause.largest[:_MOST_BUFFERS]
        if b.bytes * _LEAST_PART >= (cause.need_bytes or 0)
    )


def _more(recording_path: str | None) -> str:
    return (
        "Sizes are per device. Every buffer, padding, and what would help: "
        f"`vtpu explain {recording_path or 'RECORDING'}`."
    )
