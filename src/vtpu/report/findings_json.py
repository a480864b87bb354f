"""Findings as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.findings.catalogue import find_rule
from vtpu.findings.finding import Amount, Evidence, Finding, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRow:
    """A figure with its unit and where it comes from. Bytes and counts are whole numbers."""

    value: int | float
    unit: Unit
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """A line of the user's program."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What a fault costs: HBM on each device, time of every step, time once in a run."""

    hbm: AmountRow | None
    step: AmountRow | None
    once: AmountRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One thing that shows the fault, with its figure or a text."""

    what: str
    amount: AmountRow | None
    text: str | None
    line: LineRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A fault of a program or a run. `rule` and `code` are those of `vtpu rules`.

    `severity` is note, low, medium, high or critical. `program` is the compiled program that it is about.
    """

    rule: str
    code: str
    severity: str
    title: str
    change: str
    program: str | None
    line: LineRow | None
    cost: CostRow
    evidence: tuple[EvidenceRow, ...]


def findings_as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings, worst first, notes too. What is not known or not the matter is null."""
    return [asdict(_finding(f)) for f in findings]


def _finding(finding: Finding) -> FindingRow:
    cost = finding.cost
    return FindingRow(
        rule=finding.rule,
        code=find_rule(finding.rule).code,
        severity=str(finding.severity),
        title=finding.title,
        change=finding.change,
        program=finding.program or None,
        line=_line(finding.line),
        cost=CostRow(hbm=_amount(cost.hbm), step=_amount(cost.step), once=_amount(cost.once)),
        evidence=tuple(map(_evidence, finding.evidence)),
    )


def _evidence(evidence: Evidence) -> EvidenceRow:
    return EvidenceRow(
        what=evidence.what,
        amount=_amount(evidence.amount),
        text=evidence.text or None,
        line=_line(evidence.line),
    )


def _line(line: SourceLine) -> LineRow | None:
    return LineRow(file=line.file, line=line.line, function=line.function) if line.line else None


def _amount(amount: Amount | None) -> AmountRow | None:
    if amount is None:
        return None
    is_whole = float(amount.value).is_integer() and amount.unit in (Unit.BYTES, Unit.COUNT)
    value = int(amount.value) if is_whole else amount.value
    return AmountRow(value=value, unit=amount.unit, basis=amount.basis)
