"""Findings of all rules together."""

from __future__ import annotations

from dataclasses import replace

from vtpu.analysis.program.report import Origin, report_program
from vtpu.findings.catalogue import find_rule
from vtpu.findings.finding import Cost, Finding, Severity, hbm_bytes
from vtpu.findings.search import FAILED, said, worst_first
from vtpu.findings.subjects import ProgramSubject, program_subject

PROGRAM = program_subject(report_program(None, Origin(name="jit_step", slice="v5e:1x1")))
SMALL = Finding(rule="not-donated", severity=Severity.LOW, title="a", change="b", evidence=())
LARGE = replace(SMALL, title="c", cost=Cost(hbm=hbm_bytes(1 << 30)))


def fails(_: ProgramSubject) -> list[Finding]:
    raise ValueError("no such buffer")


def test_a_rule_that_fails_says_so_and_where() -> None:
    (finding,) = said(find_rule("not-donated"), fails, PROGRAM)
    assert finding.title.startswith(FAILED)
    assert "no such buffer" in finding.title
    assert finding.evidence[0].what.startswith("fails, line")


def test_the_worst_comes_first_and_each_once() -> None:
    high = replace(SMALL, title="d", severity=Severity.HIGH)
    assert worst_first([SMALL, LARGE, high, SMALL]) == (high, LARGE, SMALL)
