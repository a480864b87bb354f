"""What a message means, in one word and one sentence; "unknown" wherever it does not say enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vtpu.reading.messages.gpu import GpuLibraryFailed, GpuOutOfMemory, PoolExhausted
from vtpu.reading.messages.hbm_compile import (
    BufferTooLarge,
    CompilationAborted,
    CoreUsage,
    ProgramTooLarge,
    RematerializationFailed,
)
from vtpu.reading.messages.others import (
    CapturedConstants,
    DonationFailed,
    DonationUnused,
    FullRematerialization,
    GuardedTransfer,
    HostOutOfMemory,
    HostOutputLayout,
)
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.runtime import (
    AllocationFailed,
    InputMismatch,
    Lack,
    OldDriverFailed,
    RequestFailed,
    ReservationFailed,
)
from vtpu.reading.messages.tables import Entry, MemoryReport
from vtpu.reading.messages.vmem_compile import ScopedTooLarge
from vtpu.reading.printed.sizes import PrintedSize
from vtpu.units import format_bytes

#: From here on padding is called the reason: data takes this many times its bytes.
PADDING_MATTERS = 1.5
#: From here on arguments are called the reason: this part of the total.
ARGUMENTS_MATTER_PERCENT = 50


class Cause(Enum):
    """Why something failed or was said."""

    FULL = "full"
    FRAGMENTED = "fragmented"
    TOO_LARGE = "too large at compile time"
    PADDING = "padding"
    ARGUMENTS = "arguments"
    REAL_NEED = "real need, no padding"
    SPILLS = "register spills"
    KERNEL = "kernel blocks"
    COMPILER = "compiler"
    SCALAR_MEMORY = "scalar memory"
    LAYOUT = "layout mismatch, not out of memory"
    FULL_BEFORE = "the memory was full before"
    GPU = "GPU"
    HOST = "host memory, not HBM"
    RESHARDING = "resharding through a full copy"
    TRANSFER = "transfer guard"
    DONATION = "donation"
    CONSTANTS = "constants in the program"
    WARNING = "warning: an out-of-memory error is likely to follow"
    INFORMATION = "information, not an error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cause and what the message says about it."""

    cause: Cause
    sentence: str


#: Messages that mean the same whatever their numbers are.
_FIXED: dict[type[Message], Verdict] = {
    RequestFailed: Verdict(Cause.FULL, "the memory of the device is full"),
    ProgramTooLarge: Verdict(
        Cause.UNKNOWN,
        "no table of buffers: arguments, results and temporaries together do not fit;"
        " compile again for the breakdown",
    ),
    CompilationAborted: Verdict(Cause.TOO_LARGE, Cause.TOO_LARGE.value),
    BufferTooLarge: Verdict(Cause.TOO_LARGE, "one buffer is larger than its whole memory"),
    RematerializationFailed: Verdict(Cause.WARNING, Cause.WARNING.value),
    InputMismatch: Verdict(Cause.LAYOUT, Cause.LAYOUT.value),
    PoolExhausted: Verdict(Cause.GPU, "a GPU's pool has no room; it tries again"),
    GpuLibraryFailed: Verdict(Cause.GPU, "a GPU's memory is taken, often by the pool itself"),
    FullRematerialization: Verdict(Cause.RESHARDING, Cause.RESHARDING.value),
    GuardedTransfer: Verdict(Cause.TRANSFER, Cause.TRANSFER.value),
    HostOutOfMemory: Verdict(Cause.HOST, Cause.HOST.value),
    DonationUnused: Verdict(Cause.DONATION, "donated arrays were not reused"),
    DonationFailed: Verdict(Cause.DONATION, "an array was donated that could not be"),
    CapturedConstants: Verdict(Cause.CONSTANTS, Cause.CONSTANTS.value),
    HostOutputLayout: Verdict(
        Cause.LAYOUT, "a result in host memory has a layout of device memory"
    ),
}
_INFORMATION = Verdict(Cause.INFORMATION, Cause.INFORMATION.value)


def verdict(message: Message) -> Verdict:
    """What `message` means."""
    match message:
        case MemoryReport():
            return _report(message)
        case AllocationFailed() | ReservationFailed() | OldDriverFailed():
            return _lack(message)
        case ScopedTooLarge():
            return _scoped(message)
        case CoreUsage():
            return _cores(message)
        case GpuOutOfMemory():
            return _gpu(message)
        case _:
            return _FIXED.get(type(message), _INFORMATION)


def _lack(message: AllocationFailed | ReservationFailed | OldDriverFailed) -> Verdict:
    if isinstance(message, AllocationFailed) and message.is_premapped:
        return Verdict(Cause.HOST, "the host's premapped memory for transfers is full, not HBM")
    if message.lack is None:
        return Verdict(Cause.UNKNOWN, "the message is cut")
    if message.lack is Lack.FULL:
        return Verdict(Cause.FULL, "there are not enough free bytes")
    return Verdict(
        Cause.FRAGMENTED, "there are enough free bytes, but not in one piece where they are needed"
    )


def _cores(message: CoreUsage) -> Verdict:
    alone = message.alone_too_large
    if not alone:
        return Verdict(Cause.TOO_LARGE, "TensorCore and SparseCore exceed the memory together")
    return Verdict(Cause.TOO_LARGE, f"{' and '.join(alone)} alone exceeds the memory")


def _gpu(message: GpuOutOfMemory) -> Verdict:
    total = message.total
    if total is None:
        return Verdict(Cause.GPU, "a GPU has no room; there is no table of what the program needs")
    small = total.bytes < 1 << 30
    if small:
        need = f"the program needs {format_bytes(total.bytes)}: the memory was full before"
        return Verdict(Cause.FULL_BEFORE, need)
    return Verdict(Cause.GPU, f"the program needs {format_bytes(total.bytes)} of the GPU's memory")


def _scoped(message: ScopedTooLarge) -> Verdict:
    if message.takes_whole_operands:
        return Verdict(Cause.KERNEL, "whole operands in VMEM: the kernel has no blocks")
    if message.is_users_kernel is None:
        return Verdict(Cause.UNKNOWN, "the instruction is cut")
    if message.is_users_kernel:
        limit = f" of {format_bytes(message.limit.bytes)}" if message.limit else ""
        return Verdict(
            Cause.KERNEL,
            f"windows (twice when double buffered), scratch and spills exceed the limit{limit}",
        )
    return Verdict(Cause.COMPILER, "an operation of the compiler's own, not a user's block size")


def _report(report: MemoryReport) -> Verdict:
    if report.fits:
        return Verdict(Cause.INFORMATION, "a program that fits")
    spills = [entry for entry in report.entries if entry.is_spill]
    if spills:
        return Verdict(Cause.SPILLS, f"the compiler's own register spills: {len(spills)} entries")
    if report.space == "smem":
        return Verdict(
            Cause.SCALAR_MEMORY,
            "scalar memory; where rounding hides the difference, the printed excess says it",
        )
    if report.space == "vmem" or (not report.space and _is_scoped(report)):
        return _vmem(report)
    return _hbm(report)


def _is_scoped(report: MemoryReport) -> bool:
    types = {entry.allocation_type for entry in report.entries}
    return types == {"scoped"}


def _vmem(report: MemoryReport) -> Verdict:
    kernels = [entry.kernel for entry in report.entries if entry.is_custom_call]
    if kernels:
        of = f" for {format_bytes(report.capacity.bytes)} of VMEM" if report.capacity else ""
        return Verdict(Cause.KERNEL, f"kernel blocks are too large{of}: {kernels[0] or 'a kernel'}")
    opcodes = {_opcode(entry) for entry in report.entries} - {None}
    if opcodes:
        names = ", ".join(sorted(str(opcode) for opcode in opcodes))
        return Verdict(Cause.COMPILER, f"an operation of the compiler's own: {names}")
    return Verdict(Cause.UNKNOWN, "no buffers are listed")


def _opcode(entry: Entry) -> str | None:
    call = (entry.label or "").partition(" = ")[2]
    name = call.partition("(")[0].split(" ")[-1]
    return name or None


def _hbm(report: MemoryReport) -> Verdict:
    temp, factor = report.temp, report.padding_factor
    percent = report.arguments_percent
    if percent is not None and percent >= ARGUMENTS_MATTER_PERCENT:
        return Verdict(Cause.ARGUMENTS, f"arguments are {percent:.1f} % of it{_donated(report)}")
    if factor is None and temp and temp.utilization_percent:
        factor = 100 / temp.utilization_percent
    if factor is None:
        return _without_totals(report)
    if factor >= PADDING_MATTERS:
        return Verdict(Cause.PADDING, _padding(report, factor))
    return Verdict(Cause.REAL_NEED, Cause.REAL_NEED.value)


def _padding(report: MemoryReport, factor: float) -> str:
    sentence = f"padding makes temporaries {factor:.1f} times as large"
    total, temp = report.total(), report.temp
    if total is None or total.total is None or temp is None or not temp.padded or not temp.unpadded:
        return sentence
    without = total.total.bytes - temp.padded.bytes + temp.unpadded.bytes
    limit = f" of {format_bytes(report.capacity.bytes)}" if report.capacity else ""
    return f"{sentence}; without it the total is {format_bytes(without)}{limit}"


def _donated(report: MemoryReport) -> str:
    total = report.total()
    shares = total.output.shares if total and total.output else None
    return "; nothing is donated" if shares == PrintedSize(0) else ""


def _without_totals(report: MemoryReport) -> Verdict:
    """No utilization is printed, so nothing is claimed about the whole."""
    if report.usage:
        return Verdict(Cause.TOO_LARGE, "the slots of the usage report say what is alive together")
    if not report.has_header and not report.totals:
        return Verdict(Cause.UNKNOWN, f"the header is missing{_padded_operand(report)}")
    return Verdict(Cause.UNKNOWN, "the message does not say what the memory is needed for")


def _padded_operand(report: MemoryReport) -> str:
    operands = [shape for entry in report.entries for shape in entry.operands if shape.padded_bytes]
    worst = max(
        (s.padded_bytes // max(1, s.logical_bytes) for s in operands if s.logical_bytes), default=1
    )
    return f"; an operand is padded {worst} times" if worst >= 2 else ""
