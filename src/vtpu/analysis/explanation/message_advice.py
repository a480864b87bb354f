"""What would help against the failure that a message tells of, as far as its own numbers say."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.reading.messages.hbm_compile import (
    BufferTooLarge,
    CompilationAborted,
    CoreUsage,
    ProgramTooLarge,
    RematerializationFailed,
)
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.runtime import AllocationFailed, InputMismatch, Lack, ReservationFailed
from vtpu.reading.messages.tables import Block, MemoryReport
from vtpu.reading.messages.verdicts import Cause
from vtpu.reading.messages.vmem_compile import ScopedTooLarge
from vtpu.reading.printed.sizes import PrintedSize
from vtpu.units import KIB, format_bytes

VMEM_OPTION = "xla_tpu_scoped_vmem_limit_kib"
"""The compiler's option for the scoped VMEM limit, also a flag in LIBTPU_INIT_ARGS."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do. `saves`: an estimate of the bytes; None where the message does not tell.

    `fits`: whether that would be enough; None where it is not known.
    """

    text: str
    saves: PrintedSize | None = None
    fits: bool | None = None


def advise(message: Message, cause: Cause) -> tuple[Advice, ...]:  # noqa: PLR0911 - by kind
    """What would help, most telling first; nothing where the message is no failure."""
    match message:
        case MemoryReport() if not message.fits and cause not in _OTHER_THAN_HBM:
            return tuple(_hbm(message))
        case ScopedTooLarge():
            return tuple(_kernel(message))
        case BufferTooLarge():
            return _one_buffer(message)
        case AllocationFailed() | ReservationFailed():
            return _run_time(message)
        case ProgramTooLarge() | CompilationAborted() | CoreUsage() | RematerializationFailed():
            return (Advice(_BREAKDOWN),)
        case InputMismatch():
            return (Advice(_MISMATCH),)
        case _:
            text = _BY_CAUSE.get(cause)
            return (Advice(text),) if text else ()


_OTHER_THAN_HBM = (Cause.SPILLS, Cause.KERNEL, Cause.COMPILER, Cause.SCALAR_MEMORY)
_BREAKDOWN = (
    "for the table of buffers, compile with XLA_FLAGS=--xla_dump_to=FOLDER (a failed compile leaves its "
    "dump too) and give the folder to vtpu explain, or run vtpu check on the function"
)
_MISMATCH = (
    "put the argument as the program was compiled for it: the same layout, sharding and memory kind"
)
_BY_CAUSE = {
    Cause.FULL: "delete arrays that are not needed any more, donate what a step replaces, or shard it",
    Cause.SPILLS: (
        "these are registers that the compiler put into memory: smaller blocks or a newer compiler, "
        "not a smaller batch alone"
    ),
    Cause.KERNEL: "smaller blocks in the kernel's BlockSpecs",
    Cause.COMPILER: "not a user's block size: another release of libtpu, or another formulation",
    Cause.SCALAR_MEMORY: "shrink what is prefetched to scalar memory: block tables, offsets, masks",
    Cause.FULL_BEFORE: (
        "the program is small: another process or an earlier program holds the memory; "
        "XLA_PYTHON_CLIENT_MEM_FRACTION says how much JAX takes"
    ),
    Cause.GPU: "XLA_PYTHON_CLIENT_PREALLOCATE and XLA_PYTHON_CLIENT_MEM_FRACTION set JAX's part of it",
    Cause.HOST: "host memory is lacking, not HBM: fewer workers or a smaller input pipeline",
    Cause.DONATION: "donate only what a result of the same shape, type and sharding can take over",
    Cause.RESHARDING: "give the value a sharding that the next operation has too",
    Cause.CONSTANTS: "pass the arrays as arguments instead of closing over them",
}


# ---- HBM at compile time -----------------------------------------------------------------------


def _hbm(report: MemoryReport) -> list[Advice]:
    found = [a for make in (_padding, _donation, _packing) if (a := make(report))]
    if not report.entries and not report.usage:
        found.append(Advice(_BREAKDOWN))
    return found or [Advice("a smaller batch, rematerialisation (jax.checkpoint) or more sharding")]


def _saving(text: str, saves: PrintedSize, report: MemoryReport) -> Advice:
    over = report.excess
    fits = None if over is None else saves.low >= over.high
    return Advice(text, saves, fits)


def _padding(report: MemoryReport) -> Advice | None:
    temp = report.temp
    if temp is None or temp.padded is None or temp.unpadded is None:
        return None
    lost = temp.padded - temp.unpadded
    if lost.bytes <= lost.rounding:
        return None
    text = "arrays whose last two dimensions fill the tiles (8 x 128): at most the padding goes"
    return _saving(text, lost, report)


def _donation(report: MemoryReport) -> Advice | None:
    """At most what results take and arguments have, less what is shared already."""
    total: Block | None = report.total()
    arguments = total.size_of("arguments") if total else None
    output = total.output if total else None
    if not arguments or not output or not output.size or output.shares is None:
        return None
    possible = min(output.size, arguments, key=lambda s: s.bytes) - output.shares
    if possible.bytes <= possible.rounding or not possible.bytes:
        return None
    return _saving("donate arguments that results can replace: at most", possible, report)


def _packing(report: MemoryReport) -> Advice | None:
    lost = report.temp.fragmentation if report.temp else None
    if lost is None or not lost.bytes or report.excess is None or lost.high < report.excess.low:
        return None
    return _saving(
        "a better packing of the heap, which nobody can ask for: holes take", lost, report
    )


# ---- kernels -----------------------------------------------------------------------------------


def _kernel(message: ScopedTooLarge) -> list[Advice]:
    found: list[Advice] = []
    if message.is_users_kernel is False:
        return [Advice(_BY_CAUSE[Cause.COMPILER])]
    if message.takes_whole_operands:
        found.append(Advice("a grid and BlockSpecs: now whole operands are in VMEM at once"))
    else:
        found.append(
            Advice("smaller blocks; single instead of double buffering halves the windows")
        )
    if message.size:
        kib = -(-message.size.high // KIB)
        text = (
            f"a higher limit, if the chip's VMEM has room for {format_bytes(message.size.bytes)}: the "
            f"compile option {VMEM_OPTION}={kib}, or CompilerParams(vmem_limit_bytes={kib * KIB}) of "
            "this kernel"
        )
        found.append(Advice(text))
    return found


def _one_buffer(message: BufferTooLarge) -> tuple[Advice, ...]:
    what = f" ({message.tag})" if message.tag else ""
    where = f"all of {message.space}" if message.space else "the whole memory"
    return (Advice(f"make this buffer{what} smaller: it exceeds {where}, so no limit helps"),)


# ---- run time ----------------------------------------------------------------------------------


def _run_time(message: AllocationFailed | ReservationFailed) -> tuple[Advice, ...]:

    if message.lack is None:
        return (Advice("the message is cut: how much is free is missing"),)
    if message.lack is Lack.FRAGMENTED:
        text = "allocate what lives long first, or delete it before: enough is free, but in pieces"
        return (Advice(text),)
    text = "free at least, by deleting arrays, donating what a step replaces, or sharding"
    found = [Advice(text, message.short)]
    if isinstance(message, AllocationFailed) and (message.place or "").startswith("0x0x0_"):
        found.append(
            Advice("if it is always this first core: data is made or loaded without a sharding")
        )
    return tuple(found)
