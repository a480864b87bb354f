"""The compiler's own figures for a program's HBM, which differ, and what each one counts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.analysis.program.memory import MemoryUsage
from vtpu.program.memory import ProgramMemory
from vtpu.units import parse_bytes

_LOGGED = (
    (
        "program in libtpu's log",
        re.compile(r"XLA::TPU program HBM usage: ([\d.]+[BKMGTP]?)"),
        "temporaries and code; without arguments and results; rounded",
    ),
    (
        "total in libtpu's log",
        re.compile(r"Total hbm usage >= ([\d.]+[BKMGTP]?)"),
        "the program, its arguments, and what the runtime reserves; rounded",
    ),
    (
        "reserved in libtpu's log",
        re.compile(r"Total hbm usage >= [^\n]*\n\s+reserved\s+([\d.]+[BKMGTP]?)"),
        "what the runtime takes for itself, outside of the limit; rounded",
    ),
)


@dataclass(frozen=True, slots=True)
class CompilerFigure:
    """A figure of the compiler's: its name, bytes, what it counts."""

    name: str
    bytes: int
    counts: str


def compiler_figures(memory: ProgramMemory, usage: MemoryUsage) -> tuple[CompilerFigure, ...]:
    """Every figure that the compiler gives for the program's HBM, in bytes per device.

    The first one is what a compile that does not fit is refused by.
    """
    found: list[CompilerFigure] = []
    if usage.hbm and memory.assignment.allocations:
        found.append(
            CompilerFigure(
                "sum of its allocations",
                usage.hbm.total_bytes,
                "arguments, results, the heap of temporaries, constants: what must fit; without code",
            )
        )
        found.append(
            CompilerFigure(
                "alive at the peak", usage.hbm.peak_bytes, "the same without the holes in the heap"
            )
        )
    return (*found, *_of_stats(memory), *_of_log(memory.log))


def _of_stats(memory: ProgramMemory) -> list[CompilerFigure]:
    stats = memory.stats
    if stats is None:
        return []
    total = stats.argument_bytes + stats.output_bytes - stats.alias_bytes + stats.temp_bytes
    found = [
        CompilerFigure(
            "memory_analysis(): arguments + outputs - alias + temp",
            total,
            "without code; before libtpu 0.0.52 temp counts holes in the heap twice",
        ),
        CompilerFigure("memory_analysis(): temp", stats.temp_bytes, "temporaries in HBM"),
        CompilerFigure(
            "memory_analysis(): generated code",
            stats.generated_code_bytes,
            "code and its constants",
        ),
    ]
    if stats.peak_memory_field_bytes:
        found.append(
            CompilerFigure(
                "memory_analysis(): peak_memory_in_bytes",
                stats.peak_memory_field_bytes,
                "not the peak of HBM: allocations without a heap and the largest heap of any memory",
            )
        )
    return found


def _of_log(log: str) -> list[CompilerFigure]:
    found: list[CompilerFigure] = []
    for name, pattern, counts in _LOGGED:
        if match := pattern.search(log):
            found.append(CompilerFigure(name, parse_bytes(match[1]), counts))
    return found
