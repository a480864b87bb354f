"""Findings as sections: a table of all, worst first, then the evidence of the worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtpu.analysis.source_lines import SourceLine
from vtpu.findings.catalogue import find_rule
from vtpu.findings.finding import Amount, Evidence, Finding, Severity, Unit
from vtpu.report.document import (
    Bytes,
    Cell,
    Column,
    Count,
    Facts,
    Flops,
    Line,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.units import counted

_MOST_ROWS = 20
_MOST_WITH_EVIDENCE = 6
_MOST_EVIDENCE = 8
_NOTHING = "No rule finds a fault. `vtpu rules` lists what they look for."


def findings_sections(
    findings: Sequence[Finding], line: Callable[[SourceLine], Line]
) -> tuple[Section, ...]:
    """What the rules found. Notes, which cost next to nothing, are counted and not shown."""
    shown = [f for f in findings if f.severity > Severity.NOTE]
    notes = len(findings) - len(shown)
    said = (Note(f"{counted(notes, 'note')} more in the JSON report."),) if notes else ()
    if not shown:
        return (Section("Findings", (Note(_NOTHING), *said)),)
    details = [_evidence(f, line) for f in shown[:_MOST_WITH_EVIDENCE]]
    return (Section("Findings", (_table(shown, line), *said)), *details)


def _table(findings: Sequence[Finding], line: Callable[[SourceLine], Line]) -> Table:
    rows = tuple(
        (
            str(f.severity),
            f"{find_rule(f.rule).code} {f.rule}",
            f.title,
            amount_cell(f.cost.hbm),
            amount_cell(f.cost.step),
            amount_cell(f.cost.once),
            line(f.line) if f.line.line else NoFigure(),
        )
        for f in findings[:_MOST_ROWS]
    )
    columns = (
        Column("severity"),
        Column("rule"),
        Column("what", wraps=True),
        Column("HBM"),
        Column("each step"),
        Column("once"),
        Column("line", is_minor=True),
    )
    return Table(columns, rows, left_out=max(0, len(findings) - _MOST_ROWS))


def _evidence(finding: Finding, line: Callable[[SourceLine], Line]) -> Section:
    rows = tuple(
        (e.what, _figure(e), _basis(e), line(e.line) if e.line.line else NoFigure(""))
        for e in finding.evidence[:_MOST_EVIDENCE]
    )
    left_out = max(0, len(finding.evidence) - _MOST_EVIDENCE)
    columns = (Column("evidence", wraps=True), Column(""), Column("basis"), Column("line"))
    pairs: list[tuple[str, Cell]] = [("change", finding.change)]
    if finding.program:
        pairs.append(("program", finding.program))
    pairs.append(("more", f"vtpu rules {finding.rule}"))
    blocks = (Facts(tuple(pairs)), *((Table(columns, rows, left_out),) if rows else ()))
    return Section(f"{finding.severity}: {finding.title}", blocks)


def _figure(evidence: Evidence) -> Cell:
    return amount_cell(evidence.amount) if evidence.amount else evidence.text or NoFigure("")


def _basis(evidence: Evidence) -> str:
    return str(evidence.amount.basis) if evidence.amount else ""


def amount_cell(amount: Amount | None) -> Cell:
    """An amount as a cell; of one that is not the matter none."""
    if amount is None:
        return NoFigure()
    match amount.unit:
        case Unit.BYTES:
            return Bytes(round(amount.value))
        case Unit.SECONDS:
            return Seconds(amount.value)
        case Unit.COUNT:
            return Count(round(amount.value))
        case Unit.FLOPS:
            return Flops(amount.value)
        case Unit.SHARE:
            return Share(amount.value, 1.0)
