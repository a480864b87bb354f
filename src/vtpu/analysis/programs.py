"""The programs of a run by name: how often compiled and called, what they need, why again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventFlag, EventKind, of_kind
from vtpu.recording.recording import ProgramRecord, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """One compilation of a program: where, why again, how long, what it took as arguments.

    `compile_s` is what the compiler took when the result was made, here or in an earlier run.
    """

    program: int
    line: SourceLine
    reason: str | None
    compile_s: float | None
    from_cache: bool
    error: str | None
    parameter_shapes: tuple[str, ...]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSummary:
    """All programs of one name. Sizes are the compiler's, bytes per device, of the largest one.

    `need_bytes` = arguments + outputs - aliased + temporaries, in HBM.
    """

    name: str
    compiles: int
    distinct: int
    from_cache: int
    calls: int
    compile_s: float
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    generated_code_bytes: int
    host_bytes: int
    need_bytes: int
    line: SourceLine
    compilations: tuple[Compilation, ...]


def need_bytes(program: ProgramRecord) -> int:
    """What a program needs of HBM by itself, generated code apart."""
    return program.argument_bytes + program.output_bytes - program.alias_bytes + program.temp_bytes


def summarize_programs(recording: Recording, lines: LineFinder) -> tuple[ProgramSummary, ...]:
    """The programs by name, in the order in which they first appeared."""
    executions = of_kind(recording.events, EventKind.EXECUTE)
    happened = executions["flags"] & EventFlag.FAILED == 0
    calls = Counter(executions["program"][happened].tolist())
    by_name: dict[str, list[ProgramRecord]] = {}
    for program in recording.programs:
        by_name.setdefault(program.name, []).append(program)
    return tuple(_summarize(name, group, calls, lines) for name, group in by_name.items())


def _summarize(
    name: str, group: list[ProgramRecord], calls: Counter[int], lines: LineFinder
) -> ProgramSummary:
    largest = max(group, key=need_bytes)
    compilations = tuple(_compilation(p, calls, lines) for p in group)
    return ProgramSummary(
        name=name,
        compiles=len(group),
        distinct=len({p.key or p.number for p in group}),
        from_cache=sum(p.from_cache for p in group),
        calls=sum(c.calls for c in compilations),
        compile_s=sum(c.compile_s or 0.0 for c in compilations),
        argument_bytes=largest.argument_bytes,
        output_bytes=largest.output_bytes,
        alias_bytes=largest.alias_bytes,
        temp_bytes=largest.temp_bytes,
        generated_code_bytes=largest.generated_code_bytes,
        host_bytes=largest.host_argument_bytes
        + largest.host_output_bytes
        - largest.host_alias_bytes
        + largest.host_temp_bytes,
        need_bytes=need_bytes(largest),
        line=compilations[0].line,
        compilations=compilations,
    )


def _compilation(program: ProgramRecord, calls: Counter[int], lines: LineFinder) -> Compilation:
    return Compilation(
        program=program.number,
        line=lines.line(program.stack),
        reason=program.reason,
        compile_s=program.compile_s,
        from_cache=program.from_cache,
        error=program.error,
        parameter_shapes=program.parameter_shapes,
        calls=calls[program.number],
    )
