"""Tries proposals on programs: runs or compiles a program, proposes, applies what is proposed, runs again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from running import Bench, Run
from vtpu.analysis.run.summary import summarize
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable
from vtpu.changes.edits import Edit, render
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import site_of
from vtpu.changes.target import read_target
from vtpu.chips import parse_slice
from vtpu.findings.finding import Finding
from vtpu.findings.subjects import run_subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A program that ran before and after a change."""

    before: Run
    after: Run
    text: str
    change: Change


def as_file(text: str) -> SourceFile:
    """A text as a file of its own."""
    return SourceFile("prog.py", text)


def edited(text: str, edits: Sequence[Edit]) -> str:
    """A text with edits, which has to be Python still."""
    after = render(text, edits)
    compile(after, "prog.py", "exec")
    return after


def situation_of(bench: Bench, run: Run, findings: Sequence[Finding] = ()) -> Situation:
    """The situation that a script's run leaves; the program is the one that takes most of the time."""
    recording = run.recording
    subject = run_subject(recording, summarize(recording))
    program = max(subject.programs, key=lambda p: (p.step_s or 0.0) * (p.calls or 0) or 0.0)
    file = subject.files.get(program.line.file if program.line else "prog.py")
    assert file is not None
    return Situation(
        target=read_target("prog.py", str(bench.folder)),
        slice=parse_slice(recording.run.slice),
        goal=Goal.MEMORY,
        program=program,
        run=subject,
        findings=tuple(findings),
        files=subject.files,
        site=site_of(file, program.name.removeprefix("jit_")),
    )


def proposed(proposal: Proposal, situation: Situation) -> tuple[list[Change], list[str]]:
    """The changes that a kind proposes, and the reasons why there are no more."""
    found = list(proposal.propose(situation))
    changes = [one for one in found if isinstance(one, Change)]
    return changes, [one.reason for one in found if isinstance(one, NotApplicable)]


def tried(bench: Bench, proposal: Proposal, text: str, *, on: str = "v5e:1x1") -> Tried:
    """A program before and after the one change of a kind that is proposed for it."""
    before = bench.run(text, on=on)
    changes, reasons = proposed(proposal, situation_of(bench, before))
    assert len(changes) == 1, (changes, reasons)
    assert {e.file for e in changes[0].edits} == {str(_script(bench, changes[0]))}
    after = edited(text, changes[0].edits)
    elsewhere = bench.folder / "changed"
    elsewhere.mkdir()
    again = replace(bench, folder=elsewhere).run(after, on=on)
    assert again.exit_code == before.exit_code == 0, again.stderr[-3000:]
    return Tried(before=before, after=again, text=after, change=changes[0])


def refused(bench: Bench, proposal: Proposal, text: str, *, on: str = "v5e:1x1") -> str:
    """Why nothing of a kind is proposed for a program."""
    run = bench.run(text, on=on)
    changes, reasons = proposed(proposal, situation_of(bench, run))
    assert not changes
    return "; ".join(reasons)


def _script(bench: Bench, change: Change) -> Path | str:
    name = change.edits[0].file
    return name if name == "prog.py" else bench.folder / "prog.py"


def without_findings(situation: Situation) -> Situation:
    """A situation in which no rule has found anything."""
    return replace(situation, findings=())
