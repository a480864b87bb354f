"""What rules look at: a compiled program, and a run with the programs that matter in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from vtpu.analysis.bottlenecks.reshards import Reshard, find_reshards
from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.program.report import Origin, ProgramReport, report_program
from vtpu.analysis.run.loop import Loop, loop_of
from vtpu.analysis.run.programs import ProgramSummary, need_bytes
from vtpu.analysis.run.recompiles import Recompile, recompiles_of
from vtpu.analysis.run.step_if import step_if
from vtpu.analysis.run.step_time import find_steps
from vtpu.analysis.run.summary import RunSummary
from vtpu.analysis.run.virtual_clock import VirtualRun, run_on_clock
from vtpu.analysis.source.files import SourceFiles
from vtpu.analysis.source_lines import LineFinder, SourceLine, UserLines
from vtpu.analysis.time.programs import ProgramTimes
from vtpu.chips import Slice, UnknownSlice, parse_slice
from vtpu.program.modules import Module
from vtpu.recording.events import EventFlag, EventKind, of_kind
from vtpu.recording.recording import ProgramRecord, Recording

_MOST_PROGRAMS = 4  # by memory, and as many again by time


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramSubject:
    """A compiled program as rules see it.

    `report` has its memory (`usage`, `memory.module`), padding, heaps and time. `calls` is how often it
    was executed, None where it was only compiled. `record` is what a run keeps of it. `line` is the
    user's line that had it compiled. `of_run` is its part of all the time that the run's programs take
    on the devices; None where it was only compiled or no time is known.
    """

    report: ProgramReport
    files: SourceFiles
    slice: Slice | None = None
    record: ProgramRecord | None = None
    calls: int | None = None
    line: SourceLine | None = None
    of_run: float | None = None

    @property
    def name(self) -> str:
        """The program's name, `jit_step`."""
        return self.report.origin.name

    @property
    def module(self) -> Module | None:
        """The compiled module; None where there is none."""
        return self.report.memory.module if self.report.memory else None

    @property
    def limit_bytes(self) -> int | None:
        """HBM that a program may take on each device."""
        return self.report.limit_bytes

    @property
    def step_s(self) -> float | None:
        """The modelled time of one execution; None where it is not known."""
        return self.report.time.seconds if self.report.time else None

    @cached_property
    def reshards(self) -> tuple[Reshard, ...]:
        """The collectives that it can hardly have meant; several rules ask for them."""
        report = self.report
        if report.memory is None or report.time is None:
            return ()
        return find_reshards(report.memory.module, report.time, report.memory.log)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSubject:
    """A run as rules see it: its events, its summary, the modelled times of its programs, and those that
    matter.
    """

    recording: Recording
    summary: RunSummary
    files: SourceFiles
    times: ProgramTimes

    @cached_property
    def lines(self) -> LineFinder:
        """Finds the user's line of an event's stack."""
        return LineFinder(self.recording)

    @cached_property
    def slice(self) -> Slice | None:
        """The slice; None where the recording is of a release that knew another one."""
        try:
            return parse_slice(self.recording.run.slice)
        except UnknownSlice:
            return None

    @property
    def step_s(self) -> float | None:
        """The median step; None where the run has no steps."""
        step = self.summary.time.step if self.summary.time else None
        return step.steps.median_s if step else None

    @property
    def host_speed(self) -> float:
        """How much faster the slice's host is taken to be than this machine."""
        time = self.summary.time
        return 1.0 if time is None else inf if time.host_speed is None else time.host_speed

    @cached_property
    def virtual_run(self) -> VirtualRun:
        """The run on the virtual clock, with the modelled times of its programs."""
        return run_on_clock(self.recording, self.times, self.host_speed)

    @cached_property
    def loop(self) -> Loop | None:
        """Its steps; None where there are not two of them."""
        step = self.summary.time.step if self.summary.time else None
        loop = loop_of(self.recording, step.steps) if step else None
        return loop if loop and loop.count > 1 else None

    def saved_if(self, events: np.ndarray) -> float | None:
        """What a step would be shorter, seconds, had `events` happened instead; None: it has no steps."""
        time = self.summary.time
        if time is None or time.step is None:
            return None
        program = time.step.steps.program
        now = find_steps(self.recording, self.virtual_run, program).median_s
        then = step_if(self.recording, events, program, self.times, self.host_speed)
        return max(0.0, now - then)

    @cached_property
    def recompiled(self) -> tuple[tuple[ProgramSummary, tuple[Recompile, ...]], ...]:
        """The functions that were compiled more than once, with all compilations but the first."""
        functions = [f for f in self.summary.programs if f.compiles > 1]
        return tuple((f, recompiles_of(f, self.recording)) for f in functions)

    @cached_property
    def calls(self) -> Counter[int]:
        """How often each program was executed, by its number."""
        executions = of_kind(self.recording.events, EventKind.EXECUTE)
        happened = executions["flags"] & EventFlag.FAILED == 0
        return Counter(executions["program"][happened].tolist())

    def executed_between(self, program: int) -> tuple[int, int] | None:
        """The places among the events where a program was first and last executed; None: it never was."""
        events = self.recording.events
        is_own = (events["kind"] == EventKind.EXECUTE) & (events["program"] == program)
        places = np.flatnonzero(is_own)
        return (int(places[0]), int(places[-1])) if len(places) else None

    @cached_property
    def programs(self) -> tuple[ProgramSubject, ...]:
        """The programs that matter: those that did not compile, those that need most memory, and those
        that take most of the time. Programs of one content are one.
        """
        return tuple(self._subject(p) for p in self._chosen())

    def program(self, number: int) -> ProgramSubject:
        """Any program of the run."""
        record = next(p for p in self.recording.programs if p.number == number)
        return self._subject(record)

    @cached_property
    def _device_s(self) -> float:
        """How long all executions keep a device."""
        times = {number: self.times(number) for number in self.calls}
        return sum(time.seconds * self.calls[n] for n, time in times.items() if time)

    def _chosen(self) -> list[ProgramRecord]:
        with_module = _one_of_each(p for p in self.recording.programs if p.hlo)
        refused = [p for p in with_module if p.error]
        compiled = [p for p in with_module if not p.error]
        by_need = sorted(compiled, key=need_bytes, reverse=True)[:_MOST_PROGRAMS]
        seconds = {p.number: self._seconds(p) for p in compiled}
        by_time = sorted(compiled, key=lambda p: -seconds[p.number])[:_MOST_PROGRAMS]
        chosen = {p.number: p for p in (*refused[:_MOST_PROGRAMS], *by_need, *by_time)}
        return [chosen[number] for number in sorted(chosen)]

    def _seconds(self, program: ProgramRecord) -> float:
        """How long all executions of a program keep a device."""
        time = self.times(program.number)
        return time.seconds * self._calls_of(program) if time else 0.0

    def _calls_of(self, program: ProgramRecord) -> int:
        """How often a program was executed, and others of the same content."""
        same = (p for p in self.recording.programs if p.key and p.key == program.key)
        return sum(self.calls[p.number] for p in same) or self.calls[program.number]

    def _subject(self, program: ProgramRecord) -> ProgramSubject:
        run = self.recording.run
        report = report_program(
            memory_of(program, run),
            Origin(
                name=program.name,
                slice=run.slice,
                num_devices=program.num_replicas * program.num_partitions,
                versions=run.versions,
                compile_s=program.compile_s,
                was_known=program.from_cache,
                folder=run.folder,
            ),
            UserLines(run.library_folders),
            fits=program.error is None,
            error=program.error,
            time=None if program.error else self.times.of(program.number),
        )
        return ProgramSubject(
            report=report,
            files=self.files,
            slice=self.slice,
            record=program,
            calls=self._calls_of(program),
            line=self.lines.line(program.stack),
            of_run=self._seconds(program) / self._device_s if self._device_s else None,
        )


def _one_of_each(programs: Iterable[ProgramRecord]) -> list[ProgramRecord]:
    """One program of each content; those without a key are all different."""
    found: dict[str | int, ProgramRecord] = {}
    for program in programs:
        found.setdefault(program.key or program.number, program)
    return list(found.values())


def program_subject(report: ProgramReport, record: ProgramRecord | None = None) -> ProgramSubject:
    """A program that was compiled by itself."""
    wanted = parse_slice(report.origin.slice) if report.origin.slice else None
    files = SourceFiles(report.origin.folder)
    return ProgramSubject(report=report, files=files, slice=wanted, record=record)


def run_subject(
    recording: Recording, summary: RunSummary, times: ProgramTimes | None = None
) -> RunSubject:
    """A run. `times`: those of its programs, where the summary was made with them."""
    return RunSubject(
        recording=recording,
        summary=summary,
        files=SourceFiles(recording.run.folder),
        times=times or ProgramTimes(recording),
    )
