"""A kernel that finds no room in VMEM or scalar memory: which one, its blocks, its limit, its line."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.explanation.error_codes import error_code, error_page
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine, UserLines
from vtpu.program.memory import ProgramMemory
from vtpu.program.modules import Instruction
from vtpu.program.op_names import layer_of
from vtpu.reading.messages.hbm_compile import BufferTooLarge
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.tables import Entry, MemoryReport
from vtpu.reading.messages.vmem_compile import ScopedTooLarge
from vtpu.reading.printed.sizes import PrintedSize

_PALLAS = "tpu_custom_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Whom the compiler refused and what it said. `code` and `page`: XLA's, see `error_codes`."""

    module: str | None
    code: str | None
    page: str | None
    error: str


def refusal_of(message: Message | None, memory: ProgramMemory | None) -> Refusal:
    """The refusal that a message is, of a program where it is known."""
    code = error_code(message) if message else None
    return Refusal(
        module=memory.module.name if memory else None,
        code=code,
        page=error_page(code),
        error=(memory.error if memory else None) or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A block of an operand that a kernel keeps in VMEM."""

    operand: str
    shape: str
    full_shape: str | None
    size: PrintedSize | None
    is_double_buffered: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFailure:
    """A kernel that needs more VMEM (or scalar memory) than there is, or than its limit.

    `is_over_the_chip`: one buffer is larger than the whole memory, so no limit helps. `windows` are
    blocks that the message names; `block_sizes` those in the kernel's name. `takes_whole_operands`:
    the need is that of the operands and results as they are: nothing is blocked.
    """

    refusal: Refusal
    kernel: str
    is_users_kernel: bool | None
    space: str
    need: PrintedSize | None
    limit: PrintedSize | None
    over: PrintedSize | None
    is_over_the_chip: bool
    takes_whole_operands: bool
    buffer: str | None
    operands: tuple[str, ...]
    results: tuple[str, ...]
    windows: tuple[Window, ...]
    block_sizes: tuple[tuple[str, tuple[int, ...]], ...]
    layer: str
    line: SourceLine


def kernel_failure(
    message: Message, memory: ProgramMemory | None, lines: UserLines
) -> KernelFailure | None:
    """A message about a kernel's memory, with the line of the kernel where the module is there."""
    match message:
        case ScopedTooLarge():
            return _scoped(message, memory, lines)
        case BufferTooLarge() if message.space != "hbm":
            return _one_buffer(message, memory, lines)
        case MemoryReport() if message.space == "vmem" and not message.fits:
            return _listed(message, memory, lines)
        case _:
            return None


def _scoped(
    message: ScopedTooLarge, memory: ProgramMemory | None, lines: UserLines
) -> KernelFailure:
    found = _instruction(memory, message.name)
    operator = message.operator
    line = _line(found, memory, lines)
    if not line.line and operator.source_file and operator.source_line:
        line = SourceLine(operator.source_file, operator.source_line, "")
    return KernelFailure(
        refusal=refusal_of(message, memory),
        kernel=message.name or "a kernel whose name is cut",
        is_users_kernel=message.is_users_kernel,
        space=message.space or "vmem",
        need=message.size,
        limit=message.limit,
        over=message.excess,
        is_over_the_chip=False,
        takes_whole_operands=message.takes_whole_operands,
        buffer=None,
        operands=tuple(map(str, message.operands)),
        results=tuple(map(str, message.results)),
        windows=(),
        block_sizes=(),
        layer=layer_of(operator.op_name or (found.op_name if found else "")),
        line=line,
    )


def _one_buffer(
    message: BufferTooLarge, memory: ProgramMemory | None, lines: UserLines
) -> KernelFailure:
    found = _instruction(memory, message.operation)
    sizes = [
        None if n is None else PrintedSize(n) for n in (message.size_bytes, message.capacity_bytes)
    ]
    over = sizes[0] - sizes[1] if sizes[0] and sizes[1] else None
    return KernelFailure(
        refusal=refusal_of(message, memory),
        kernel=message.operation or "not named by the message",
        is_users_kernel=None if found is None else found.custom_call_target == _PALLAS,
        space=message.space or "memory",
        need=sizes[0],
        limit=sizes[1],
        over=over,
        is_over_the_chip=True,
        takes_whole_operands=False,
        buffer=f"{message.shape_text or 'a buffer'}{f' ({message.tag})' if message.tag else ''}",
        operands=(),
        results=(),
        windows=(),
        block_sizes=(),
        layer=layer_of(found.op_name) if found else "",
        line=_line(found, memory, lines),
    )


def _listed(
    message: MemoryReport, memory: ProgramMemory | None, lines: UserLines
) -> KernelFailure | None:
    entries = [e for e in message.entries if e.is_custom_call] or list(message.entries)
    if not entries:
        return None
    first = entries[0]
    found = _instruction(memory, first.instruction)
    op_name = first.operator.op_name if first.operator else None
    return KernelFailure(
        refusal=refusal_of(message, memory),
        kernel=first.kernel or first.instruction or "an operation whose name is cut",
        is_users_kernel=first.is_custom_call or None,
        space="vmem",
        need=message.used,
        limit=message.capacity,
        over=message.excess,
        is_over_the_chip=message.capacity is not None,
        takes_whole_operands=False,
        buffer=None,
        operands=tuple(map(str, first.operands)),
        results=(),
        windows=tuple(w for e in entries if (w := _window(e))),
        block_sizes=tuple(first.block_sizes.items()),
        layer=layer_of(op_name or (found.op_name if found else "")),
        line=_line(found, memory, lines),
    )


def _window(entry: Entry) -> Window | None:
    found = entry.window
    if found is None:
        return None
    return Window(
        operand=f"{found.kind} {found.operand}",
        shape=found.window_shape or entry.shape_text or "unknown",
        full_shape=found.full_shape,
        size=entry.size,
        is_double_buffered=found.is_double_buffered,
    )


def _instruction(memory: ProgramMemory | None, name: str | None) -> Instruction | None:
    if memory is None or not name:
        return None
    return next((i for i in memory.module.by_id.values() if i.name == name), None)


def _line(found: Instruction | None, memory: ProgramMemory | None, lines: UserLines) -> SourceLine:
    if found is None or memory is None:
        return UNKNOWN_LINE
    return lines.line(memory.module.frames(found))
