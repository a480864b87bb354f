"""Looks for every fault that there is a rule for."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.findings.catalogue import all_rules
from vtpu.findings.finding import Finding
from vtpu.findings.subjects import ProgramSubject, RunSubject


def find_in_program(subject: ProgramSubject) -> tuple[Finding, ...]:
    """The faults of a compiled program, worst first."""
    return worst_first(_in_program(subject))


def find_in_run(subject: RunSubject) -> tuple[Finding, ...]:
    """The faults of a run and of the programs that matter in it, worst first."""
    found = [f for rule in all_rules() if rule.in_run for f in rule.in_run(subject)]
    for program in subject.programs:
        found += _in_program(program)
    return worst_first(found)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, then by what they cost; the same one of several programs once."""
    unique = {(f.rule, f.title, f.line): f for f in findings}
    return tuple(sorted(unique.values(), key=_badness, reverse=True))


def _in_program(subject: ProgramSubject) -> list[Finding]:
    return [f for rule in all_rules() if rule.in_program for f in rule.in_program(subject)]


def _badness(finding: Finding) -> tuple[int, float, float, float]:
    cost = finding.cost
    hbm, step, once = (a.value if a else 0.0 for a in (cost.hbm, cost.step, cost.once))
    return finding.severity, hbm, step, once
