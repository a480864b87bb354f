"""Kernels that exceed VMEM, or nearly."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.kernel_out_of_memory import KernelFailure
from vtpu.analysis.program.kernel_vmem import KernelVmem, fitting_block, kernels_of
from vtpu.analysis.source_lines import UserLines
from vtpu.evidence import Basis
from vtpu.findings.arguments import line_of
from vtpu.findings.finding import Amount, Evidence, Finding, Severity, Unit
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject
from vtpu.reading.printed.shapes import quoted_shapes
from vtpu.reading.printed.sizes import PrintedSize
from vtpu.units import KIB, MIB, format_bytes

_NEAR = 0.9  # of the limit
_SPILLS = "register allocator spill slots"


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """The kernel for which the program did not compile; else those that nearly fill their limit."""
    failure = subject.report.failure
    if isinstance(failure, KernelFailure):
        yield _failed(subject, failure)
    elif subject.module and subject.report.fits is not False:
        near = [k for k in kernels_of(subject.module) if k.bytes >= _NEAR * k.limit_bytes]
        yield from (_near(subject, kernel) for kernel in near)


# ---- kernels that do not fit -------------------------------------------------------------------


def _failed(subject: ProgramSubject, failure: KernelFailure) -> Finding:
    need, limit = _text(failure.need), _text(failure.limit)
    space = failure.space.upper()
    of = f"all {space} of the chip" if failure.is_over_the_chip else f"its limit of {space}"
    return Finding(
        rule=RULE.slug,
        severity=Severity.CRITICAL,
        title=f"the kernel {_name(failure.kernel)} does not fit: it needs {need} and {of} is {limit}",
        change=_change(subject, failure),
        evidence=tuple(_evidence(failure)),
        line=failure.line if failure.line.line else line_of(subject),
        program=subject.name,
    )


def _name(instruction: str) -> str:
    """The user's name of a kernel, of which a module numbers the calls: `scale` of `scale.1`."""
    name, _, number = instruction.rpartition(".")
    return name if number.isdigit() else instruction


def _text(size: PrintedSize | None) -> str:
    return format_bytes(size.bytes) if size else "more than the message says"


def _change(subject: ProgramSubject, failure: KernelFailure) -> str:
    if _SPILLS in failure.refusal.error:
        return (
            "smaller blocks: what does not fit are registers that the compiler had to put into VMEM"
        )
    if failure.is_users_kernel is False:
        return "no kernel of the program's: try another release of libtpu, or another formulation of this line"
    if failure.is_over_the_chip:
        what = failure.buffer or "one buffer"
        return f"make {what} smaller, a part of it for each place of the grid: no limit helps, the chip has no more"
    blocks = _grid(failure) if failure.takes_whole_operands else _SMALLER
    higher = _higher_limit(subject, failure)
    return (
        f"{blocks}; or {higher}"
        if higher
        else f"{blocks}; a higher limit does not help, the chip has no more"
    )


_SMALLER = "smaller blocks in the BlockSpecs, or `pipeline_mode=pl.Buffered(1)` for what need not be double buffered"


def _grid(failure: KernelFailure) -> str:
    """A grid with blocks that fit, where operands and results are of one shape."""
    arrays = quoted_shapes(" ".join((*failure.operands, *failure.results)))
    block = fitting_block(arrays, failure.limit.bytes) if failure.limit else None
    if block is None:
        return "give the kernel a grid and BlockSpecs: without, whole operands are in VMEM at once"
    *_, rows, _ = arrays[0].dims
    return (
        f"give the kernel a grid and BlockSpecs, say blocks of {block} over {rows // block[-2]:,} places: "
        "without, whole operands are in VMEM at once"
    )


def _higher_limit(subject: ProgramSubject, failure: KernelFailure) -> str | None:
    """A limit with room for the kernel as it is; None where the chip has no more."""
    chip = subject.slice.generation.chip if subject.slice else None
    if failure.need is None or (chip and failure.need.high > chip.vmem_bytes_per_core.value):
        return None
    enough = -(-failure.need.high // MIB) * MIB
    has = f" of the chip's {format_bytes(chip.vmem_bytes_per_core.value)}" if chip else ""
    return (
        f"raise the limit to {format_bytes(enough)}{has}: `pltpu.CompilerParams(vmem_limit_bytes={enough})`, or "
        f"xla_tpu_scoped_vmem_limit_kib={enough // KIB}"
    )


def _evidence(failure: KernelFailure) -> Iterable[Evidence]:
    sizes = {"needs": failure.need, "may have": failure.limit, "over by": failure.over}
    for what, size in sizes.items():
        if size:
            yield Evidence(what=what, amount=_amount(size.bytes), line=failure.line)
    for operand in failure.operands[:_MOST]:
        yield Evidence(what="operand", text=operand)
    for result in failure.results[:_MOST]:
        yield Evidence(what="result", text=result)
    for window in failure.windows[:_MOST]:
        amount = _amount(window.size.bytes) if window.size else None
        yield Evidence(what=f"window of {window.operand}", amount=amount, text=window.shape)
    if failure.buffer:
        yield Evidence(what="buffer", text=failure.buffer)


def _amount(size: int, basis: Basis = Basis.COMPILER) -> Amount:
    return Amount(size, Unit.BYTES, basis)


# ---- kernels that fit ---------------------------------------------------------------------------


def _near(subject: ProgramSubject, kernel: KernelVmem) -> Finding:
    frames = subject.module.frames(kernel.call) if subject.module else ()
    line = (subject.report.lines or UserLines()).line(frames)
    return Finding(
        rule=RULE.slug,
        severity=Severity.NOTE,
        title=f"the kernel {_name(kernel.call.name)} fills {format_bytes(kernel.bytes)} of its "
        f"{format_bytes(kernel.limit_bytes)} of VMEM",
        change="leave it, or choose smaller blocks before it has to run on a chip with a lower limit",
        evidence=(
            Evidence(
                what="windows and scratch", amount=_amount(kernel.bytes, Basis.MODELLED), line=line
            ),
            Evidence(what="limit", amount=_amount(kernel.limit_bytes), line=line),
        ),
        line=line,
        program=subject.name,
    )


_MOST = 4

RULE = Rule(
    code="M160",
    slug="vmem-pressure",
    group=Group.MEMORY,
    title="A kernel does not fit into VMEM, or only just",
    why="A kernel's windows (twice where they are double buffered), its scratch memory and spilled registers "
    "share the scoped part of VMEM, whose limit is 16 MiB on v5e. A kernel without a grid holds its operands "
    "whole.",
    change="A grid with BlockSpecs, smaller blocks, or a higher limit (`vmem_limit_bytes`) where the chip has "
    "the room.",
    limits="Of a program that compiles libtpu says nothing of spills; windows and scratch of its kernels are "
    "counted from their bodies, taken to be double buffered, and only noted. What XLA itself places in VMEM "
    "is not looked at.",
    in_program=find,
)
