"""What messages about memory say, in one form for all templates: asked, limit, over, buffers, cause.

Sizes are as printed, rounded. What a message does not say is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.explanation.error_codes import error_code, error_page
from vtpu.analysis.explanation.message_advice import Advice, advise
from vtpu.analysis.program.kernel_out_of_memory import KernelFailure, kernel_failure
from vtpu.analysis.source_lines import UserLines
from vtpu.program.op_names import Phase, layer_of, phase_of
from vtpu.reading.messages import Messages
from vtpu.reading.messages.gpu import GpuOutOfMemory, PoolExhausted
from vtpu.reading.messages.hbm_compile import (
    BufferTooLarge,
    CompilationAborted,
    CoreUsage,
    ProgramTooLarge,
    RematerializationFailed,
)
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.runtime import (
    AllocationFailed,
    InputMismatch,
    OldDriverFailed,
    RequestFailed,
    ReservationFailed,
)
from vtpu.reading.messages.tables import Entry, MemoryReport, Part
from vtpu.reading.messages.verdicts import Cause, verdict
from vtpu.reading.messages.vmem_compile import ScopedTooLarge
from vtpu.reading.printed.operators import Operator
from vtpu.reading.printed.sizes import PrintedSize
from vtpu.reading.text_dumps.peak_buffers import PeakBuffer
from vtpu.reading.text_dumps.usage_report import Slot

_HARMLESS = (Cause.INFORMATION,)
_TITLES = {
    "T1": "a program does not fit, found at compile time",
    "T2": "a program does not fit, found at compile time",
    "T3": "a program does not fit, found at compile time",
    "T4": "the compiler gave up early",
    "T5": "a program does not fit, found at compile time",
    "T6": "one buffer is larger than its memory",
    "T7": "a kernel does not fit into VMEM",
    "T8": "a kernel does not fit into VMEM",
    "T9": "no room for an array at run time",
    "T10": "no room for a program's temporaries at run time",
    "T11": "no room for a program's code at run time",
    "T12": "no room for an array at run time",
    "T13": "an argument does not have the layout or place that the program expects",
    "T14": "no room for an array at run time",
    "T15": "out of memory on a GPU",
    "T16": "the pool of a GPU is empty",
    "T17": "a GPU library found no memory",
    "T18": "donation",
    "T19": "the compiler could not save enough memory by computing again",
    "T20": "a change of sharding goes through a full copy",
    "T21": "a transfer that the guard noticed",
    "T22": "JAX traced a function again",
    "T23": "what a program that fits takes",
    "T24": "what a PyTorch/XLA program takes",
    "T25": "constants",
    "T26": "a result in host memory",
    "T27": "the compiler's log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBuffer:
    """A buffer that a message lists. `line`: `file.py:12` as printed; `role`: judged by the path.

    `number` is the message's own.
    """

    number: int | None
    size: PrintedSize | None
    name: str
    shape: str
    role: str
    layer: str
    line: str
    padding: PrintedSize | None
    expansion: float | None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A message. `asked`: what was needed or requested; `largest_free`: the largest free piece.

    `parts`: other sizes that it names. `kernel` is set where it is about a kernel's memory.
    `is_failure`: it is an error, or announces one.
    """

    template: str
    code: str | None
    page: str | None
    title: str
    lines: tuple[int, int]
    is_cut: bool
    is_failure: bool
    cause: str
    sentence: str
    about: str | None
    asked: PrintedSize | None
    limit: PrintedSize | None
    over: PrintedSize | None
    free: PrintedSize | None
    largest_free: PrintedSize | None
    parts: tuple[tuple[str, PrintedSize], ...]
    buffers: tuple[FoundBuffer, ...]
    advice: tuple[Advice, ...]
    kernel: KernelFailure | None


def find_in_messages(messages: Messages) -> tuple[Finding, ...]:
    """A finding for each message, in the order of the text."""
    return tuple(_finding(m) for m in messages.found)


def _finding(message: Message) -> Finding:
    meaning = verdict(message)
    code = error_code(message)
    asked, limit, over = _need(message)
    free, largest = _free(message)
    return Finding(
        template=message.template,
        code=code,
        page=error_page(code),
        title=_title(message),
        lines=message.where.lines,
        is_cut=message.where.is_cut,
        is_failure=meaning.cause not in _HARMLESS,
        cause=meaning.cause.value,
        sentence=meaning.sentence,
        about=_about(message),
        asked=asked,
        limit=limit,
        over=over,
        free=free,
        largest_free=largest,
        parts=_parts(message),
        buffers=_buffers(message),
        advice=advise(message, meaning.cause),
        kernel=kernel_failure(message, None, UserLines()),
    )


def _title(message: Message) -> str:
    if isinstance(message, MemoryReport):
        if message.fits:
            return _TITLES["T23"]
        return _TITLES["T8" if message.space == "vmem" else "T1"]
    return _TITLES.get(message.template, "out of memory on the host")


Sizes = tuple[PrintedSize | None, PrintedSize | None, PrintedSize | None]


def _need(message: Message) -> Sizes:  # noqa: C901, PLR0911 - one case per kind of message
    """What was asked, what there is, by how much it is too much."""
    match message:
        case MemoryReport():
            total = message.total()
            return (
                message.used or (total.total if total else None),
                message.capacity,
                message.excess,
            )
        case ProgramTooLarge() | CompilationAborted():
            return message.required, message.available, message.excess
        case CoreUsage(tensorcore=one, sparsecore=other):
            return one + other if one and other else None, message.available, message.excess
        case ScopedTooLarge():
            return message.size, message.limit, message.excess
        case BufferTooLarge():
            asked, limit = _exact(message.size_bytes), _exact(message.capacity_bytes)
            return asked, limit, asked - limit if asked and limit else None
        case RematerializationFailed():
            reached, target = _exact(message.reached_bytes), _exact(message.target_bytes)
            return reached, target, _exact(message.excess_bytes)
        case AllocationFailed() | ReservationFailed():
            return message.request, None, message.short
        case OldDriverFailed():
            return _exact(message.request_bytes), None, _exact(message.short_bytes)
        case RequestFailed() | GpuOutOfMemory() | PoolExhausted():
            return message.request, None, None
        case InputMismatch():
            return _exact(message.expected_bytes), None, None
        case _:
            return None, None, None


def _exact(size: int | None) -> PrintedSize | None:
    return None if size is None else PrintedSize(size)


def _free(message: Message) -> tuple[PrintedSize | None, PrintedSize | None]:
    """Free bytes and the largest piece of them that can be used."""
    match message:
        case AllocationFailed():
            return message.free, message.largest
        case ReservationFailed():
            return message.free, message.reservable
        case OldDriverFailed():
            return _exact(message.free_bytes), _exact(message.largest_bytes)
        case _:
            return None, None


def _about(message: Message) -> str | None:  # noqa: PLR0911 - one return per kind of message
    """The program, kernel or place that the message names."""
    match message:
        case MemoryReport() | ProgramTooLarge():
            return message.module
        case ScopedTooLarge():
            return message.name
        case BufferTooLarge():
            return message.operation
        case AllocationFailed():
            return message.program or message.place
        case ReservationFailed() | InputMismatch():
            return message.program
        case OldDriverFailed():
            return message.device
        case _:
            return None


# ---- sizes beside the need ---------------------------------------------------------------------


def _parts(message: Message) -> tuple[tuple[str, PrintedSize], ...]:
    if isinstance(message, GpuOutOfMemory):
        return tuple((stat.name, stat.size) for stat in message.stats)
    if not isinstance(message, MemoryReport):
        return ()
    found: list[tuple[str, PrintedSize | None]] = []
    for block in message.totals:
        found.append((f"total in {block.space or 'a memory whose name is cut'}", block.total))
        found += [(part.name, part.size) for part in block.parts]
        if block.output:
            found.append(("results", block.output.size))
            found.append(("results in memory of arguments (donation)", block.output.shares))
    for block in message.requirements:
        for part in block.parts:
            found += _requirement(block.space or "?", part)
    found += [(f"{usage.space} of the program", usage.used) for usage in message.usages]
    return tuple((name, size) for name, size in found if size is not None)


def _requirement(space: str, part: Part) -> list[tuple[str, PrintedSize | None]]:
    found: list[tuple[str, PrintedSize | None]] = [(f"{part.name} in {space}", part.size)]
    if part.padded and part.unpadded:
        found.append(("padding in it", part.padded - part.unpadded))
    found.append(("fragmentation in it", part.fragmentation))
    return found


# ---- buffers -----------------------------------------------------------------------------------


def _buffers(message: Message) -> tuple[FoundBuffer, ...]:
    if isinstance(message, GpuOutOfMemory):
        return tuple(_of_peak(b) for b in message.buffers)
    if not isinstance(message, MemoryReport):
        return ()
    if message.entries:
        return tuple(_of_entry(e) for e in message.entries)
    slots = [
        slot
        for space in message.usage
        if space.color == 0
        for allocation in space.allocations
        for slot in allocation.slots
    ]
    return tuple(_of_slot(s) for s in sorted(slots, key=lambda s: -s.size.bytes))


def _of_entry(entry: Entry) -> FoundBuffer:
    op_name = (entry.operator.op_name if entry.operator else None) or ""
    padding = entry.padding
    if padding is None and entry.size and entry.unpadded:
        padding = PrintedSize(0) if entry.size.may_equal(entry.unpadded) else None
    return FoundBuffer(
        number=entry.number,
        size=entry.size,
        name=entry.kernel or entry.instruction or "",
        shape=entry.shape_text or "",
        role=_entry_role(entry, op_name),
        layer=layer_of(op_name),
        line=(entry.operator.source if entry.operator else None) or "",
        padding=padding,
        expansion=entry.expansion,
        is_cut=entry.is_cut,
    )


def _entry_role(entry: Entry, op_name: str) -> str:
    if entry.is_spill:
        return "register spills"
    if entry.is_custom_call:
        return "kernel"
    return _role(op_name, entry.operator)


def _role(op_name: str, operator: Operator | None) -> str:
    if op_name == "XLA_Args":
        return "argument"
    if operator is None or not op_name:
        return ""
    return {
        Phase.FORWARD: "activation (forward)",
        Phase.BACKWARD: "gradient (backward)",
        Phase.RECOMPUTED: "activation (recomputed)",
        Phase.OTHER: "temporary",
    }[phase_of(op_name)]


def _of_peak(buffer: PeakBuffer) -> FoundBuffer:
    op_name = (buffer.operator.op_name if buffer.operator else None) or ""
    return FoundBuffer(
        number=buffer.number,
        size=buffer.size,
        name=buffer.label or "",
        shape=buffer.shape_text or "",
        role="argument" if buffer.is_parameter else _role(op_name, buffer.operator),
        layer=layer_of(op_name),
        line=(buffer.operator.source if buffer.operator else None) or "",
        padding=None,
        expansion=None,
        is_cut=buffer.is_cut,
    )


def _of_slot(slot: Slot) -> FoundBuffer:
    shapes = ", ".join(f"{s.count}x {s.text}" if s.count > 1 else s.text for s in slot.shapes)
    return FoundBuffer(
        number=None,
        size=slot.size,
        name=f"a place that {slot.values:,} values take in turn"
        if slot.values > 1
        else "one value",
        shape=shapes,
        role="",
        layer="",
        line="",
        padding=None,
        expansion=None,
    )
