"""The programs of an XLA dump folder: what each needs, and the one to look at.

Of each module the buffer assignment's totals are read, of the chosen one everything. The proto with
the assignment comes first; where it is missing, what XLA printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vtpu.analysis.explanation.explanations import ProgramExplained, explain_program
from vtpu.analysis.explanation.printed_dumps import PrintedExplained, explain_printed, explain_usage
from vtpu.analysis.program.out_of_memory import with_log
from vtpu.analysis.program.report import Origin
from vtpu.program.memory import ProgramMemory
from vtpu.program.modules import Module
from vtpu.reading.dump_names import DumpedModule, DumpFolder
from vtpu.reading.hlo_text import HloTextError, read_hlo_text
from vtpu.reading.program_files import (
    NO_ASSIGNMENT,
    NOT_PLACED,
    allocated_bytes,
    read_hlo_proto,
)
from vtpu.reading.recognize import Kind
from vtpu.reading.text_dumps.assignment_values import assignment_of
from vtpu.reading.text_dumps.buffer_assignment import read_buffer_assignment_text
from vtpu.reading.text_dumps.usage_report import read_usage_report, read_usage_report_proto
from vtpu.reading.wire import WireError

Read = Callable[[str], bytes]
_STAGE = "after_optimizations"
_EARLIER = (
    "after_optimizations_after_buffer_assignment",
    "after_optimizations_before_buffer_assignment",
    "after_codegen",
    "oom_intermediate_module",
    "before_optimizations",
)
_REPORTS = (
    ("buffer-assignment", Kind.BUFFER_ASSIGNMENT),
    ("memory-usage-report", Kind.USAGE_REPORT),
    ("live-range", Kind.LIVE_RANGE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedProgram:
    """A module of a dump. `need_bytes`: its allocations in the device's memory, where they are known.

    `source`: the file that tells. `problem`: why nothing is known.
    """

    head: str
    name: str
    backend: str | None
    need_bytes: int | None
    ran_out_of_memory: bool
    source: str | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DumpExplained:
    """A dump folder, its largest program first. `chosen` is in detail; None where none can be read.

    `printed`: a report of the compiler's on the chosen one, where its assignment is not there.
    """

    name: str
    programs: tuple[DumpedProgram, ...]
    chosen: ProgramExplained | None
    printed: PrintedExplained | None
    problems: tuple[str, ...]


class NoSuchModule(LookupError):
    """No module of a dump has the name that was asked for."""


def explain_dump(
    name: str, dump: DumpFolder, read: Read, wanted: str | None = None, log: str = ""
) -> DumpExplained:
    """The programs of a dump; `read` gives the contents of a file by its path in the dump.

    `wanted`: the name of a module, or the begin of its files' names; by default the one that ran out
    of memory, else the largest. `log`: texts that came with the dump; the limit and the message of a
    module that did not fit are looked for there.

    Raises:
        NoSuchModule: nothing has the wanted name.
    """
    reader = _Reader(read)
    programs = {m: reader.summary(m) for m in dump.modules}
    ordered = sorted(programs, key=lambda m: _rank(programs[m]))
    matching = [m for m in ordered if wanted is None or wanted in (m.name, m.head)]
    if not matching:
        raise NoSuchModule(wanted)
    chosen = matching[0]
    memory = reader.memory(chosen)
    is_placed = memory is not None and bool(memory.assignment.allocations)
    return DumpExplained(
        name=name,
        programs=tuple(programs[m] for m in ordered),
        chosen=_explained(chosen, memory, log) if memory else None,
        printed=None if is_placed else reader.printed(chosen),
        problems=tuple(reader.problems),
    )


def _rank(program: DumpedProgram) -> tuple[bool, int, str]:
    return not program.ran_out_of_memory, -(program.need_bytes or 0), program.head


def _explained(module: DumpedModule, memory: ProgramMemory, log: str) -> ProgramExplained:
    target = {"tpu": "a TPU", "gpu": "a GPU", "cpu": "a CPU"}.get(module.backend or "")
    sm = f" ({module.target})" if module.target else ""
    origin = Origin(
        name=memory.module.name or module.name,
        source=f"{module.head}, compiled for {target}{sm}" if target else module.head,
    )
    if module.ran_out_of_memory:
        memory = with_log(memory, log)
    return explain_program(module.head, memory, origin, lacked_hbm=module.ran_out_of_memory)


class _Reader:
    """Reads files of modules, notes what could not be read."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.problems: list[str] = []

    def summary(self, module: DumpedModule) -> DumpedProgram:
        """What a module needs, from the smallest part of a file that tells."""
        need, source, problem = self._need(module)
        return DumpedProgram(
            head=module.head,
            name=module.name,
            backend=module.backend,
            need_bytes=need,
            ran_out_of_memory=module.ran_out_of_memory,
            source=source,
            problem=problem,
        )

    def _need(self, module: DumpedModule) -> tuple[int | None, str | None, str | None]:
        problem = "no buffer assignment was dumped"
        if path := module.find(_STAGE, form="proto"):
            try:
                need = allocated_bytes(self._read(path))
            except WireError as error:
                need, problem = None, f"{path} is cut or damaged: {error}"
                self.problems.append(problem)
            if need is not None:
                return need, path, None
        if path := module.find(_STAGE, "buffer-assignment", "text"):
            allocations = read_buffer_assignment_text(self._text(path)).allocations
            if allocations:
                return sum(a.size for a in allocations if a.color == 0), path, None
        if path := module.find(_STAGE, "memory-usage-report", "text"):
            spaces = read_usage_report(self._text(path)).spaces
            totals = [s.total_bytes for s in spaces if s.color == 0 and s.total_bytes is not None]
            if totals:
                return totals[0], path, None
        return None, None, problem

    def memory(self, module: DumpedModule) -> ProgramMemory | None:
        """A module with its assignment as far as it is there; None where no module can be read."""
        return self._from_proto(module) or self._from_texts(module) or self._earlier(module)

    def _from_proto(self, module: DumpedModule) -> ProgramMemory | None:
        path = module.find(_STAGE, form="proto")
        found = self._proto(path) if path else None
        return found if found and found.assignment.allocations else None

    def _from_texts(self, module: DumpedModule) -> ProgramMemory | None:
        """HLO (proto or text) with the printed assignment."""
        path = module.find(_STAGE, "buffer-assignment", "text")
        if path is None:
            return None
        printed = read_buffer_assignment_text(self._text(path))
        hlo = self._module(module, _STAGE)
        if hlo is None or not printed.allocations:
            return None
        problems = [f"{path}: {problem}" for problem in printed.problems]
        problems += [f"{path}, line {n}: not understood: {line}" for n, line in printed.unknown[:5]]
        problems.append("from the printed assignment, which has no heap trace: lives are from uses")
        return ProgramMemory(
            module=hlo, assignment=assignment_of(printed, hlo), problems=tuple(problems)
        )

    def _earlier(self, module: DumpedModule) -> ProgramMemory | None:
        """A module of any stage, without an assignment."""
        for stage in (_STAGE, *_EARLIER):
            if hlo := self._module(module, stage):
                where = f"this is the module {stage.replace('_', ' ')}: {NOT_PLACED}"
                return ProgramMemory(module=hlo, assignment=NO_ASSIGNMENT, problems=(where,))
        return None

    def _module(self, module: DumpedModule, stage: str) -> Module | None:
        if (path := module.find(stage, form="proto")) and (found := self._proto(path)):
            return found.module
        if path := module.find(stage, form="text"):
            try:
                return read_hlo_text(self._text(path))
            except HloTextError as error:
                self.problems.append(f"{path} cannot be parsed: {error}")
        return None

    def _proto(self, path: str) -> ProgramMemory | None:
        try:
            return read_hlo_proto(self._read(path))
        except WireError as error:
            problem = f"{path} is cut or damaged: {error}"
            if problem not in self.problems:
                self.problems.append(problem)
            return None

    def printed(self, module: DumpedModule) -> PrintedExplained | None:
        """What XLA printed about a module: the most telling report that is there."""
        for report, kind in _REPORTS:
            if path := module.find(_STAGE, report, "text"):
                return explain_printed(path, kind, self._text(path))
        path = module.find(_STAGE, "memory-usage-report", "proto")
        return explain_usage(path, read_usage_report_proto(self._read(path))) if path else None

    def _text(self, path: str) -> str:
        return self._read(path).decode(errors="replace")
