"""All that there is to say of one compiled program, for a report to show."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from vtpu.analysis.program.compiler_figures import CompilerFigure, compiler_figures
from vtpu.analysis.program.fragmentation import HeapFragmentation, analyse_fragmentation
from vtpu.analysis.program.large_values import LargeValue, find_large_values
from vtpu.analysis.program.memory import MemoryUsage, analyse_memory
from vtpu.analysis.program.out_of_memory import Failure, explain_error, explain_failure
from vtpu.analysis.program.padding import SpacePadding, analyse_padding
from vtpu.analysis.program.saved_activations import Kept, find_kept
from vtpu.analysis.source_lines import UserLines
from vtpu.analysis.time.report import TimeReport, report_time
from vtpu.clock.program_time import ProgramTime
from vtpu.program.memory import ProgramMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a program comes from. `slice`: what it was compiled for, if that is known.

    `compile_s` is measured, None where nothing was compiled for this; `was_known`: the result came
    from the cache, and `compile_s` is what it took then.
    """

    name: str
    source: str = ""
    slice: str | None = None
    num_devices: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    compile_s: float | None = None
    was_known: bool = False
    folder: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramReport:
    """A program's memory, and its time where that was modelled. `usage` is None when no artifact tells of
    it; parts of it that take time are found when they are asked for.

    `fits` is the compiler's verdict: None when it compiled for no limit. `failure`: why it ran out of
    memory at compile time, if it did. `is_exact`: the peak of each heap is packed exactly too, which
    takes seconds.
    """

    origin: Origin
    memory: ProgramMemory | None
    usage: MemoryUsage | None
    fits: bool | None
    error: str | None
    failure: Failure | None
    problems: tuple[str, ...]
    is_exact: bool = False
    program_time: ProgramTime | None = None
    lines: UserLines | None = None

    @cached_property
    def time(self) -> TimeReport | None:
        """What the time of one execution is made of; None where it was not modelled."""
        if self.memory is None or self.program_time is None:
            return None
        return report_time(self.memory.module, self.program_time, self.lines)

    @cached_property
    def padding(self) -> tuple[SpacePadding, ...]:
        """What tiles cost, by memory space."""
        return analyse_padding(self.usage) if self.usage else ()

    @cached_property
    def heaps(self) -> tuple[HeapFragmentation, ...]:
        """How the heaps of temporaries are packed.

        Raises:
            UsageError: `is_exact` without OR-Tools.
        """
        if self.memory is None or self.usage is None:
            return ()
        return analyse_fragmentation(self.memory, self.usage, exact=self.is_exact)

    @cached_property
    def figures(self) -> tuple[CompilerFigure, ...]:
        """The compiler's own figures for HBM."""
        if self.memory is None or self.usage is None:
            return ()
        return compiler_figures(self.memory, self.usage)

    @cached_property
    def large_values(self) -> tuple[LargeValue, ...]:
        """What the program holds whole at the peak of HBM and need not."""
        if self.memory is None or self.usage is None:
            return ()
        return find_large_values(self.memory.module, self.usage)

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """What HBM holds at the peak for the backward pass."""
        if self.memory is None or self.usage is None:
            return ()
        return find_kept(self.memory.module, self.usage, self.lines)

    @property
    def need_bytes(self) -> int | None:
        """HBM that the program needs on each device; None when that is not known."""
        hbm = self.usage.hbm if self.usage else None
        return hbm.total_bytes if hbm and self.has_assignment else None

    @property
    def has_assignment(self) -> bool:
        """Whether it is known what the compiler placed where."""
        return bool(self.memory and self.memory.assignment.allocations)

    @property
    def limit_bytes(self) -> int | None:
        """HBM that the compiler grants on each device."""
        return self.memory.limit_bytes if self.memory else None


def report_program(
    memory: ProgramMemory | None,
    origin: Origin,
    lines: UserLines | None = None,
    *,
    fits: bool | None = None,
    error: str | None = None,
    lacked_hbm: bool = False,
    exact: bool = False,
    time: ProgramTime | None = None,
) -> ProgramReport:
    """The report of a program; of one of which only the compiler's error is known, without memory.

    `lacked_hbm`: it is known that it did not compile for want of HBM, though no message is there. `time`:
    that of one execution, where it was modelled.
    """
    usage = analyse_memory(memory, lines) if memory else None
    error = error if error is not None else memory.error if memory else None
    if memory:
        failure = explain_failure(memory, lines, lacked_hbm=lacked_hbm)
    else:
        failure = explain_error(error, lines) if error else None
    return ProgramReport(
        origin=origin,
        memory=memory,
        usage=usage,
        fits=fits,
        error=error,
        failure=failure,
        problems=memory.problems if memory else (),
        is_exact=exact,
        program_time=time,
        lines=lines,
    )
