"""Why a program did not compile for want of memory, from what the failed compile left behind.

The exception is one line. The module and the buffer assignment that the compiler dumped before it
gave up hold the rest: what it would have allocated. Its log says what it tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vtpu.analysis.program.estimates import Estimates, estimate_changes
from vtpu.analysis.program.kernel_out_of_memory import (
    KernelFailure,
    Refusal,
    kernel_failure,
    refusal_of,
)
from vtpu.analysis.program.memory import Group, MemoryItem, MemoryUsage, analyse_memory, group_by
from vtpu.analysis.source_lines import UserLines
from vtpu.program.memory import ProgramMemory
from vtpu.reading.messages import read_messages
from vtpu.reading.messages.hbm_compile import (
    ProgramTooLarge,
    RematerializationFailed,
    RematerializationLimit,
)
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.tables import MemoryReport
from vtpu.reading.printed.sizes import PrintedSize


@dataclass(frozen=True, slots=True, kw_only=True)
class Rematerialization:
    """What the compiler tried to save by computing again, from its log; None where it does not say.

    `target_bytes`: what it wanted temporaries to take, `reached_bytes`: what they took at best.
    """

    target_bytes: int | None
    reached_bytes: int | None
    original_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HbmFailure:
    """A program that needs more HBM than there is.

    `need_bytes` is the sum of all HBM allocations of the buffer assignment. `stated`: what the
    message says it needs, rounded as printed. `padding_bytes`: of what is alive at the peak.
    `free_at_peak_bytes`: holes in the heap there.
    """

    refusal: Refusal
    need_bytes: int
    stated: PrintedSize | None
    limit_bytes: int | None
    usage: MemoryUsage
    largest: tuple[MemoryItem, ...]
    by_role: tuple[Group, ...]
    padding_bytes: int
    free_at_peak_bytes: int
    estimates: Estimates
    rematerialization: Rematerialization | None

    @property
    def over_bytes(self) -> int | None:
        """How much too much; None where no limit is known."""
        return None if self.limit_bytes is None else self.need_bytes - self.limit_bytes

    @property
    def agrees(self) -> bool | None:
        """Whether the sum of allocations is what the message says; None where it says nothing.

        libtpu cuts digits where XLA rounds (0.0.42 prints 18.6151 GiB as 18.61G), so the last digit
        may be off by one.
        """
        if self.stated is None:
            return None
        return abs(self.stated.bytes - self.need_bytes) <= 2 * self.stated.rounding


Failure = HbmFailure | KernelFailure


def explain_failure(
    memory: ProgramMemory, lines: UserLines | None = None, *, lacked_hbm: bool = False
) -> Failure | None:
    """Why a program ran out of memory at compile time; None when it did not, or nobody can tell.

    `lacked_hbm`: it is known that HBM was the reason, though no message is there.
    """
    if memory.error is None and not lacked_hbm:
        return None
    lines = lines or UserLines()
    said = read_messages(memory.error or "").found
    for message in said:
        if failure := kernel_failure(message, memory, lines):
            return failure
    logged = read_messages(memory.log).found
    is_hbm = lacked_hbm or any(_is_about_hbm(m) for m in (*said, *logged))
    if not is_hbm or not memory.assignment.allocations:
        return None
    return _hbm_failure(memory, lines, said, logged)


def explain_error(error: str, lines: UserLines | None = None) -> Failure | None:
    """Why a program did not compile of which only the compiler's message is known."""
    for message in read_messages(error).found:
        if failure := kernel_failure(message, None, lines or UserLines()):
            return failure
    return None


def with_log(memory: ProgramMemory, log: str) -> ProgramMemory:
    """A program whose compile failed, with the texts that came with its dump.

    The limit is the one that a message about this module (or about no named one) prints, rounded.
    """
    said = [m for m in read_messages(log).found if _is_about_hbm(m)]
    own = [m for m in said if _module_of(m) in (None, memory.module.name)]
    limits = [limit for m in own if (limit := _limit(m))]
    if not limits:
        return replace(memory, log=log)
    problem = "the limit is the one that the message prints, rounded"
    problems = (*memory.problems, problem)
    return replace(memory, log=log, limit_bytes=limits[0].bytes, problems=problems)


def _module_of(message: Message) -> str | None:
    is_named = isinstance(message, (MemoryReport, ProgramTooLarge))
    return message.module if is_named else None


def _limit(message: Message) -> PrintedSize | None:
    if isinstance(message, ProgramTooLarge):
        return message.available
    return message.capacity if isinstance(message, MemoryReport) else None


def _is_about_hbm(message: Message) -> bool:
    is_report = isinstance(message, MemoryReport) and message.space == "hbm" and not message.fits
    return is_report or isinstance(message, ProgramTooLarge)


# ---- HBM ---------------------------------------------------------------------------------------


def _hbm_failure(
    memory: ProgramMemory,
    lines: UserLines,
    said: tuple[Message, ...],
    logged: tuple[Message, ...],
) -> HbmFailure | None:
    usage = analyse_memory(memory, lines)
    hbm = usage.hbm
    if hbm is None:
        return None
    message = next((m for m in (*said, *logged) if _is_about_hbm(m)), None)
    largest = hbm.at_peak()
    return HbmFailure(
        refusal=refusal_of(message, memory),
        need_bytes=hbm.total_bytes,
        stated=_stated(message),
        limit_bytes=memory.limit_bytes,
        usage=usage,
        largest=largest,
        by_role=group_by(largest, lambda item: item.role),
        padding_bytes=sum(item.padding_bytes or 0 for item in largest),
        free_at_peak_bytes=hbm.free_at_peak_bytes,
        estimates=estimate_changes(memory, usage),
        rematerialization=_rematerialization(logged),
    )


def _stated(message: Message | None) -> PrintedSize | None:
    if isinstance(message, ProgramTooLarge):
        return message.required
    return message.used if isinstance(message, MemoryReport) else None


def _rematerialization(logged: tuple[Message, ...]) -> Rematerialization | None:
    """The last attempt in the log: a compile may be repeated."""
    failed = [m for m in logged if isinstance(m, RematerializationFailed)]
    limits = [m for m in logged if isinstance(m, RematerializationLimit)]
    if failed:
        last = failed[-1]
        return Rematerialization(
            target_bytes=last.target_bytes,
            reached_bytes=last.reached_bytes,
            original_bytes=last.original_bytes,
        )
    if limits and limits[-1].limit:
        target = limits[-1].limit.bytes
        return Rematerialization(target_bytes=target, reached_bytes=None, original_bytes=None)
    return None
