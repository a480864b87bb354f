"""The program as it is: measured, and looked at for what could be changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from vtpu.analysis.run.definitions import definition_of
from vtpu.analysis.run.summary import summarize
from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Figures
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite, called_on, site_of
from vtpu.changes.target import FixTarget
from vtpu.chips import parse_slice
from vtpu.errors import UsageError
from vtpu.findings.search import find_in_program, find_in_run
from vtpu.findings.subjects import ProgramSubject, RunSubject, run_subject
from vtpu.fixing.verification import Variant, Verifier
from vtpu.recording.file import load_recording


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """What a program needs as it is, and the situation that changes are proposed for."""

    figures: Figures
    situation: Situation


def measure_baseline(
    target: FixTarget, slice_name: str, goal: Goal | None, verifier: Verifier, limit_s: float
) -> Baseline:
    """Measures the program. Without a goal: that it fits, if it does not, else memory.

    Raises:
        UsageError: it does not compile or run as it is, or compiles nothing.
    """
    result, path = verifier.measure_and_keep(Variant(), limit_s)
    figures = result.figures
    if figures.is_cut:
        raise UsageError(
            f"the time was up (--within) before {target.name} was measured as it is: {figures.error}."
        )
    if figures.error:
        raise UsageError(f"{target.name} does not compile and run as it is: {figures.error}")
    recording = load_recording(path) if path.exists() and path.stat().st_size else None
    if recording is None or not any(p.hlo for p in recording.programs):
        raise UsageError(
            f"{target.name} compiled nothing on the slice: there is nothing to change."
        )
    recording = replace(recording, run=replace(recording.run, folder=target.folder))
    run = run_subject(recording, summarize(recording))
    program = _program_that_matters(run, target)
    findings = find_in_run(run) if target.is_script else find_in_program(program)
    situation = Situation(
        target=target,
        slice=parse_slice(slice_name),
        goal=goal or (Goal.MEMORY if figures.fits else Goal.FIT),
        program=program,
        run=run,
        findings=findings,
        files=run.files,
        site=_site(program, run, target),
        arguments=result.arguments,
    )
    return Baseline(figures=figures, situation=situation)


def _program_that_matters(run: RunSubject, target: FixTarget) -> ProgramSubject:
    """Of a function its own program, which compiled last; of a script what was refused, else the step's,
    else what needs most memory.
    """
    programs = run.programs
    if not target.is_script:
        return run.program(run.recording.programs[-1].number)
    refused = [p for p in programs if p.report.error]
    if refused:
        return refused[0]
    step = run.summary.time.step if run.summary.time else None
    if step:
        return run.program(step.steps.program)
    return max(programs, key=lambda p: p.report.need_bytes or 0)


def _site(program: ProgramSubject, run: RunSubject, target: FixTarget) -> JitSite | None:
    """Where the program's function is jitted: in the file that calls it, or that defines it."""
    definition = definition_of(program.record) if program.record else None
    lines = [line for line in (program.line, definition) if line and line.line]
    files = dict.fromkeys([*(line.file for line in lines), _file_of(target)])
    for name in _names(program, run, target):
        for file_name in files:
            file = run.files.get(file_name)
            at = definition.line if definition and definition.file == file_name else None
            if file and (site := site_of(file, name, at)):
                return site
    return None


def _names(program: ProgramSubject, run: RunSubject, target: FixTarget) -> list[str]:
    """What the jitted function may be called: in the target, where it is called, by itself."""
    named = [target.function.rpartition(".")[2]] if target.function else []
    line = program.line
    file = run.files.get(line.file) if line and target.is_script else None
    called = called_on(file, line.line) if file and line else []
    own = program.name.removeprefix("jit_")
    return [*named, *called, "<lambda>" if own == "_lambda" else own]


def _file_of(target: FixTarget) -> str:
    """The file that a target names."""
    name = target.name if target.is_script else target.name.rpartition(":")[0]
    path = name if name.endswith(".py") else name.replace(".", "/") + ".py"
    return str(Path(target.folder, path))
