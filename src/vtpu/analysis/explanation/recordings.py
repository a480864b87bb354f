"""The programs of a recording by need, and the one to look at in detail."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.explanation.explanations import (
    ProgramExplained,
    TextExplained,
    explain_program,
    explain_text,
)
from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.program.report import Origin
from vtpu.analysis.run.programs import need_bytes
from vtpu.analysis.source_lines import LineFinder, SourceLine, UserLines
from vtpu.program.memory import MemorySpace, ProgramMemory
from vtpu.recording.recording import ProgramRecord, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProgram:
    """A program of a run. `need_bytes`: HBM per device, None where it is not known.

    `times`: how many of the run's compilations are this program.
    """

    number: int
    name: str
    need_bytes: int | None
    error: str | None
    times: int
    line: SourceLine


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingExplained:
    """A run's programs, those that did not compile first, then the largest.

    `failures`: each program that did not compile, in detail; `errors`: what the compiler said of those
    of which it left no module; `chosen`: the largest one, or the one that was asked for.
    """

    name: str
    folder: str
    programs: tuple[RecordedProgram, ...]
    failures: tuple[ProgramExplained, ...]
    errors: tuple[TextExplained, ...]
    chosen: ProgramExplained | None
    problems: tuple[str, ...]


class NoSuchProgram(LookupError):
    """No program of a recording has the name that was asked for."""


def explain_recording(
    name: str, recording: Recording, wanted: str | None = None
) -> RecordingExplained:
    """The programs of a run. `wanted`: the name of one, to look at in place of the largest.

    Raises:
        NoSuchProgram: nothing has the wanted name.
    """
    details = _Details(recording)
    distinct = _distinct(recording.programs)
    rows = sorted((details.row(p, n) for p, n in distinct), key=_rank)
    by_number = {p.number: p for p, _ in distinct}
    named = [r for r in rows if wanted is None or r.name == wanted]
    if wanted is not None and not named:
        raise NoSuchProgram(wanted)
    failed = [(r, details.explain(by_number[r.number])) for r in named if r.error]
    chosen = next((r for r in named if not r.error), None)
    return RecordingExplained(
        name=name,
        folder=recording.run.folder,
        programs=tuple(rows),
        failures=tuple(found for _, found in failed if found),
        errors=tuple(explain_text(r.name, r.error or "") for r, found in failed if not found),
        chosen=details.explain(by_number[chosen.number]) if chosen else None,
        problems=recording.problems,
    )


def _distinct(programs: tuple[ProgramRecord, ...]) -> list[tuple[ProgramRecord, int]]:
    """Each program once, with how often it was compiled."""
    groups: dict[str | int, list[ProgramRecord]] = {}
    for program in programs:
        groups.setdefault(program.key or program.number, []).append(program)
    return [(group[0], len(group)) for group in groups.values()]


def _rank(program: RecordedProgram) -> tuple[bool, int, int]:
    return program.error is None, -(program.need_bytes or 0), program.number


class _Details:
    def __init__(self, recording: Recording) -> None:
        self._run = recording.run
        self._finder = LineFinder(recording)
        self._lines = UserLines(recording.run.library_folders)

    def row(self, program: ProgramRecord, times: int) -> RecordedProgram:
        return RecordedProgram(
            number=program.number,
            name=program.name,
            need_bytes=self._need(program),
            error=program.error,
            times=times,
            line=self._finder.line(program.stack),
        )

    def _need(self, program: ProgramRecord) -> int | None:
        if program.error is None:
            return need_bytes(program)
        memory = memory_of(program, self._run)
        return _hbm_bytes(memory) if memory and memory.assignment.allocations else None

    def explain(self, program: ProgramRecord) -> ProgramExplained | None:
        memory = memory_of(program, self._run)
        if memory is None:
            return None
        origin = Origin(
            name=program.name,
            source=str(self._finder.line(program.stack)),
            slice=self._run.slice,
            num_devices=len(program.device_ids) or None,
            versions=self._run.versions,
            folder=self._run.folder,
        )
        return explain_program(program.name, memory, origin, self._lines)


def _hbm_bytes(memory: ProgramMemory) -> int:
    return sum(a.size for a in memory.assignment.allocations if a.color == MemorySpace.HBM)
