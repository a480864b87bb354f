"""Sections about messages that were found in a text."""

from __future__ import annotations

from collections import Counter

from vtpu.analysis.explanation.explanations import TextExplained
from vtpu.analysis.explanation.message_advice import Advice
from vtpu.analysis.explanation.message_findings import Finding, FoundBuffer
from vtpu.evidence import Basis
from vtpu.reading.messages.verdicts import Cause
from vtpu.reading.printed.sizes import PrintedSize
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Facts,
    NoFigure,
    Note,
    Section,
    Table,
)
from vtpu.report.failure_report import kernel_blocks
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_bytes

_MOST_DETAILS = 5
_MOST_ROWS = 20
_MOST_UNKNOWN = 20
_LONGEST_LINE = 160


def message_sections(explained: TextExplained) -> tuple[Section, ...]:
    """What a text says, what is missing in it, and its lines that say nothing known."""
    distinct = _distinct(explained.findings)
    ordered = sorted(
        distinct, key=lambda f: (not f.is_failure, not f.buffers)
    )  # telling ones first
    sections: list[Section] = []
    if not ordered:
        text = "No message about memory was recognised in this text."
        sections.append(Section("Messages", (Note(text, is_warning=True),)))
    if len(ordered) > 1:
        sections.append(_overview(distinct, ordered))
    detailed = [f for f in ordered if f.is_failure] or ordered
    sections += [_finding(f) for f in detailed[:_MOST_DETAILS]]
    if explained.problems:
        notes = tuple(Note(text, is_warning=True) for text in explained.problems[:_MOST_ROWS])
        sections.append(Section("What is missing or does not add up", notes))
    if explained.unknown:
        sections.append(unknown_lines(explained.unknown))
    return tuple(sections)


def _distinct(findings: tuple[Finding, ...]) -> dict[Finding, int]:
    """Findings that say the same, the first of each, with how often they occur."""
    first: dict[object, Finding] = {}
    count: Counter[object] = Counter()
    for finding in findings:
        key = (finding.template, finding.about, finding.asked, finding.limit, finding.over,
               finding.free, finding.buffers)  # fmt: skip
        first.setdefault(key, finding)
        count[key] += 1
    return {found: count[key] for key, found in first.items()}


def _overview(counts: dict[Finding, int], findings: list[Finding]) -> Section:
    rows = tuple(
        (
            f.template,
            f.code or NoFigure(),
            f.title,
            _size(f.asked),
            _size(f.over),
            Count(counts[f]),
            _lines(f),
        )
        for f in findings[:_MOST_ROWS]
    )
    columns = (
        Column("template"),
        Column("code"),
        Column("message"),
        Column("asked", Basis.COMPILER),
        Column("too much", Basis.COMPILER),
        Column("times"),
        Column("at"),
    )
    return Section("Messages", (Table(columns, rows, max(0, len(findings) - _MOST_ROWS)),))


def _size(size: PrintedSize | None) -> Cell:
    return NoFigure() if size is None else Bytes(size.bytes)


def _lines(finding: Finding) -> str:
    first, last = finding.lines
    return f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"


# ---- one message -------------------------------------------------------------------------------


def _finding(finding: Finding) -> Section:
    pairs: list[tuple[str, Cell]] = [("message", _name(finding)), ("at", _lines(finding))]
    if finding.page:
        pairs.append(("explained at", finding.page))
    if finding.about:
        pairs.append(("about", finding.about))
    sizes = (
        ("asked", finding.asked),
        ("available", finding.limit),
        ("too much by", finding.over),
        ("free", finding.free),
        ("largest free piece", finding.largest_free),
    )
    pairs += [(name, Bytes(size.bytes)) for name, size in sizes if size is not None]
    pairs.append(("means", _meaning(finding)))
    blocks: list[Block] = [Facts(tuple(pairs))]
    if finding.kernel:
        blocks += kernel_blocks(finding.kernel, Sources(""))
    if finding.parts:
        blocks.append(_parts(finding.parts))
    if finding.buffers:
        blocks += _buffers(finding.buffers)
    if finding.advice:
        blocks.append(_advice(finding.advice))
    heading = finding.title[0].upper() + finding.title[1:]
    return Section(heading, tuple(blocks))


def _name(finding: Finding) -> str:
    code = f" ({finding.code})" if finding.code else ""
    cut = "; it is cut: what it would say further on is not known" if finding.is_cut else ""
    return f"template {finding.template}{code}{cut}"


def _meaning(finding: Finding) -> str:
    """The sentence, with the cause in one word where it does not say it."""
    if finding.cause in finding.sentence or finding.cause == Cause.UNKNOWN.value:
        return finding.sentence
    return f"{finding.sentence} ({finding.cause})"


def _parts(parts: tuple[tuple[str, PrintedSize], ...]) -> Table:
    rows = tuple((name, Bytes(size.bytes)) for name, size in parts)
    return Table((Column("part"), Column("bytes", Basis.COMPILER)), rows)


def _buffers(buffers: tuple[FoundBuffer, ...]) -> list[Block]:
    rows = tuple(_buffer(b) for b in buffers[:_MOST_ROWS])
    columns = (
        Column("buffer"),
        Column("bytes", Basis.COMPILER),
        Column("padding", Basis.COMPILER),
        Column("what"),
        Column("shape", is_minor=True),
        Column("role"),
        Column("layer", is_minor=True),
        Column("line"),
    )
    blocks: list[Block] = [Table(columns, rows, max(0, len(buffers) - _MOST_ROWS))]
    if missing := [b for b in buffers if b.is_cut or b.size is None]:
        text = f"{counted(len(missing), 'buffer')} of the table {'is' if len(missing) == 1 else 'are'} cut."
        blocks.append(Note(text, is_warning=True))
    blocks.append(Note("Sizes are rounded, as they are printed. Roles are judged by JAX's names."))
    return blocks


def _buffer(buffer: FoundBuffer) -> tuple[Cell, ...]:
    number = NoFigure("") if buffer.number is None else str(buffer.number)
    size = None if buffer.size is None else Bytes(buffer.size.bytes)
    return (
        number,
        size,
        _padding(buffer),
        buffer.name,
        buffer.shape,
        buffer.role,
        buffer.layer,
        buffer.line,
    )


def _padding(buffer: FoundBuffer) -> Cell:
    if buffer.padding is None:
        return NoFigure()
    if buffer.expansion is None:
        return Bytes(buffer.padding.bytes)
    return f"{format_bytes(buffer.padding.bytes)} ({buffer.expansion}x)"


def _advice(advice: tuple[Advice, ...]) -> Table:
    rows = tuple(
        (a.text, _size(a.saves), {True: "yes", False: "no", None: NoFigure()}[a.fits])
        for a in advice
    )
    columns = (
        Column("what would help", wraps=True),
        Column("estimate", Basis.MODELLED),
        Column("enough", Basis.MODELLED),
    )
    return Table(columns, rows)


# ---- the rest ----------------------------------------------------------------------------------


def unknown_lines(unknown: tuple[tuple[int, str], ...]) -> Section:
    """Lines that nothing is known about, with their numbers."""
    rows = tuple((str(number), line[:_LONGEST_LINE]) for number, line in unknown[:_MOST_UNKNOWN])
    table = Table((Column("line"), Column("text")), rows, max(0, len(unknown) - _MOST_UNKNOWN))
    note = Note("They belong to nothing that is known here.")
    return Section("Other lines", (table, note))
