"""The programs of a run by function: how often compiled and called, what they need, why again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vtpu.analysis.run.definitions import by_definition
from vtpu.analysis.run.refused import CompileOutOfMemory, find_refused
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventFlag, EventKind, of_kind
from vtpu.recording.recording import ProgramRecord, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """One compilation of a program: where, why again, how long, what it took as arguments.

    `compile_s` is what the compiler took when the result was made, here or in an earlier run.
    `out_of_memory`: why it did not compile, where memory was the reason and that is known.
    """

    program: int
    line: SourceLine
    reason: str | None
    compile_s: float | None
    from_cache: bool
    error: str | None
    out_of_memory: CompileOutOfMemory | None
    parameter_shapes: tuple[str, ...]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSummary:
    """All programs of one function. `compiles` have a result, `failed` have none.

    Sizes are the compiler's, bytes per device, of the largest program; null when none compiled.
    `need_bytes` = arguments + outputs - aliased + temporaries, in HBM. What lies in host memory is in
    `host_*` alone; `host_bytes` is its sum.
    """

    name: str
    compiles: int
    failed: int
    distinct: int
    from_cache: int
    calls: int
    compile_s: float | None
    argument_bytes: int | None
    output_bytes: int | None
    alias_bytes: int | None
    temp_bytes: int | None
    generated_code_bytes: int | None
    host_argument_bytes: int | None
    host_output_bytes: int | None
    host_alias_bytes: int | None
    host_temp_bytes: int | None
    host_bytes: int | None
    need_bytes: int | None
    line: SourceLine
    compilations: tuple[Compilation, ...]


_SIZES = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "generated_code_bytes",
    "host_argument_bytes",
    "host_output_bytes",
    "host_alias_bytes",
    "host_temp_bytes",
)


def need_bytes(program: ProgramRecord) -> int:
    """What a program needs of HBM by itself, generated code apart."""
    return program.argument_bytes + program.output_bytes - program.alias_bytes + program.temp_bytes


def host_bytes(program: ProgramRecord) -> int:
    """What a program needs of host memory, as `need_bytes`."""
    return (
        program.host_argument_bytes
        + program.host_output_bytes
        - program.host_alias_bytes
        + program.host_temp_bytes
    )


def largest_program(programs: Iterable[ProgramRecord]) -> ProgramRecord | None:
    """The program that needs most HBM, then most host memory; None when none compiled."""
    compiled = (p for p in programs if p.error is None)
    return max(compiled, key=lambda p: (need_bytes(p), host_bytes(p)), default=None)


def summarize_programs(recording: Recording, lines: LineFinder) -> tuple[ProgramSummary, ...]:
    """The programs by function, in the order in which they first appeared."""
    executions = of_kind(recording.events, EventKind.EXECUTE)
    happened = executions["flags"] & EventFlag.FAILED == 0
    calls = Counter(executions["program"][happened].tolist())
    compilations = _compilations(recording, calls, lines)
    return tuple(
        _summarize(group, tuple(compilations[p.number] for p in group))
        for group in by_definition(recording)
    )


def _compilations(
    recording: Recording, calls: Counter[int], lines: LineFinder
) -> Mapping[int, Compilation]:
    """The compilations by number of their program."""
    refused = find_refused(recording)
    return {
        p.number: Compilation(
            program=p.number,
            line=lines.line(p.stack),
            reason=p.reason,
            compile_s=p.compile_s,
            from_cache=p.from_cache,
            error=p.error,
            out_of_memory=refused.get(p.number),
            parameter_shapes=p.parameter_shapes,
            calls=calls[p.number],
        )
        for p in recording.programs
    }


def _summarize(group: list[ProgramRecord], compilations: tuple[Compilation, ...]) -> ProgramSummary:
    compiled = [p for p in group if p.error is None]
    largest = largest_program(group)
    sizes = {name: getattr(largest, name) if largest else None for name in _SIZES}
    return ProgramSummary(
        name=group[0].name,
        compiles=len(compiled),
        failed=len(group) - len(compiled),
        distinct=len({p.key or p.number for p in compiled}),
        from_cache=sum(p.from_cache for p in compiled),
        calls=sum(c.calls for c in compilations),
        compile_s=sum(p.compile_s or 0.0 for p in compiled) if compiled else None,
        host_bytes=host_bytes(largest) if largest else None,
        need_bytes=need_bytes(largest) if largest else None,
        line=compilations[0].line,
        compilations=compilations,
        **sizes,
    )
