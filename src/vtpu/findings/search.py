"""Looks for every fault that there is a rule for."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

from vtpu.findings.catalogue import all_rules
from vtpu.findings.finding import Evidence, Finding, Severity
from vtpu.findings.rule import Rule
from vtpu.findings.subjects import ProgramSubject, RunSubject

_Subject = TypeVar("_Subject", ProgramSubject, RunSubject)
FAILED = "this rule failed"


def find_in_program(subject: ProgramSubject) -> tuple[Finding, ...]:
    """The faults of a compiled program, worst first."""
    return worst_first(_in_program(subject))


def find_in_run(subject: RunSubject) -> tuple[Finding, ...]:
    """The faults of a run and of the programs that matter in it, worst first."""
    found = [f for rule in all_rules() if rule.in_run for f in said(rule, rule.in_run, subject)]
    for program in subject.programs:
        found += _in_program(program)
    return worst_first(found)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, then by what they cost; the same one of several programs once."""
    unique = {(f.rule, f.title, f.line): f for f in findings}
    return tuple(sorted(unique.values(), key=_badness, reverse=True))


def _in_program(subject: ProgramSubject) -> list[Finding]:
    rules = [rule for rule in all_rules() if rule.in_program]
    return [f for rule in rules if rule.in_program for f in said(rule, rule.in_program, subject)]


def said(
    rule: Rule, look: Callable[[_Subject], Iterable[Finding]], subject: _Subject
) -> list[Finding]:
    """What a rule finds. One that fails says so: the report of a long run does not go with it."""
    try:
        return list(look(subject))
    except Exception as error:  # it is told as a finding, and the others' findings stay
        said = f"{type(error).__name__}: {error}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [
            Finding(
                rule=rule.slug,
                severity=Severity.LOW,
                title=f"{FAILED} ({said}): whether it would find something is not known",
                change="Report this to the authors of vtpu, with the recording if that is possible.",
                evidence=(Evidence(what=f"{place.name}, line {place.lineno}", text=said),),
            )
        ]


def _badness(finding: Finding) -> tuple[int, float, float, float]:
    cost = finding.cost
    hbm, step, once = (a.value if a else 0.0 for a in (cost.hbm, cost.step, cost.once))
    return finding.severity, hbm, step, once
