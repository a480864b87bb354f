"""Findings as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vtpu.analysis.source_lines import SourceLine
from vtpu.findings.catalogue import find_rule
from vtpu.findings.finding import Amount, Finding


def findings_as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings, worst first, notes too. What is not known or not the matter is null."""
    return [_finding(f) for f in findings]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "code": find_rule(finding.rule).code,
        "severity": str(finding.severity),
        "title": finding.title,
        "change": finding.change,
        "program": finding.program or None,
        "line": line_as_json(finding.line),
        "cost": {
            "hbm": amount_as_json(finding.cost.hbm),
            "step": amount_as_json(finding.cost.step),
            "once": amount_as_json(finding.cost.once),
        },
        "evidence": [
            {
                "what": e.what,
                "amount": amount_as_json(e.amount),
                "text": e.text or None,
                "line": line_as_json(e.line),
            }
            for e in finding.evidence
        ],
    }


def line_as_json(line: SourceLine) -> dict[str, Any] | None:
    """A line of the user's program; null for none."""
    if not line.line:
        return None
    return {"file": line.file, "line": line.line, "function": line.function}


def amount_as_json(amount: Amount | None) -> dict[str, Any] | None:
    """A figure with its unit and basis."""
    if amount is None:
        return None
    is_whole = float(amount.value).is_integer() and amount.unit in ("bytes", "count")
    value = int(amount.value) if is_whole else amount.value
    return {"value": value, "unit": str(amount.unit), "basis": str(amount.basis)}
