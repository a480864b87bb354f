"""What `vtpu explain` finds in each kind of artifact: messages, a program, a dump, a profile, a run."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.explanation.message_findings import Finding, find_in_messages
from vtpu.analysis.explanation.profile_lines import ProfileSummary, summarize_profile
from vtpu.analysis.program.module_values import ModuleValues, module_values
from vtpu.analysis.program.out_of_memory import Failure
from vtpu.analysis.program.report import Origin, ProgramReport, report_program
from vtpu.analysis.source_lines import UserLines
from vtpu.program.memory import ProgramMemory
from vtpu.reading.long_logs import around_messages
from vtpu.reading.memory_profile import read_memory_profile
from vtpu.reading.messages import read_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExplained:
    """A text. `unknown`: its lines, from 1, that belong to no message; `problems`: gaps in it."""

    name: str
    findings: tuple[Finding, ...]
    unknown: tuple[tuple[int, str], ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramExplained:
    """A program. `values`: what its module alone tells, where there is no buffer assignment."""

    name: str
    report: ProgramReport
    values: ModuleValues | None

    @property
    def failure(self) -> Failure | None:
        """Why it ran out of memory at compile time, if it did."""
        return self.report.failure


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileExplained:
    """A memory profile."""

    name: str
    profile: ProfileSummary


def explain_text(name: str, text: str, problems: tuple[str, ...] = ()) -> TextExplained:
    """The messages in a text, and what of it is none."""
    relevant, skipped = around_messages(text)
    found = read_messages(relevant)
    gaps = tuple(
        f"lines {first:,} to {last:,}: nothing in or near them looks like a message about memory"
        for first, last in skipped
    )
    return TextExplained(
        name=name,
        findings=find_in_messages(found),
        unknown=found.unknown,
        problems=(*problems, *found.problems, *gaps),
    )


def explain_program(
    name: str,
    memory: ProgramMemory,
    origin: Origin,
    lines: UserLines | None = None,
    *,
    lacked_hbm: bool = False,
) -> ProgramExplained:
    """A program's memory; from its module alone where the compiler's assignment is not there.

    `lacked_hbm`: it did not compile for want of HBM.
    """
    did_fail = lacked_hbm or memory.error is not None
    fits = None if memory.limit_bytes is None else not did_fail
    is_placed = bool(memory.assignment.allocations)
    report = report_program(
        memory, origin, lines, fits=False if did_fail else fits, lacked_hbm=lacked_hbm
    )
    return ProgramExplained(
        name=name,
        report=report,
        values=None if is_placed else module_values(memory.module, lines),
    )


def explain_profile(name: str, data: bytes) -> ProfileExplained:
    """A memory profile by line and kind."""
    return ProfileExplained(name=name, profile=summarize_profile(read_memory_profile(data)))
