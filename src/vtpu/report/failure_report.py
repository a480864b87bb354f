"""Sections about a program that ran out of memory at compile time."""

from __future__ import annotations

from vtpu.analysis.explanation.message_advice import VMEM_OPTION
from vtpu.analysis.program.estimates import Estimates
from vtpu.analysis.program.kernel_out_of_memory import KernelFailure, Refusal, Window
from vtpu.analysis.program.out_of_memory import Failure, HbmFailure, Rematerialization
from vtpu.evidence import Basis
from vtpu.report.cells import cell_text
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Facts,
    Note,
    Section,
    Table,
)
from vtpu.report.source_text import Sources
from vtpu.units import KIB, format_bytes


def failure_sections(failure: Failure, folder: str = "") -> tuple[Section, ...]:
    """Why it did not fit and what would help. `folder`: where the user's program ran."""
    if isinstance(failure, KernelFailure):
        return (_kernel(failure, Sources(folder)),)
    return (_why(failure, Sources(folder)), _estimates(failure.estimates))


# ---- HBM ---------------------------------------------------------------------------------------


def _why(failure: HbmFailure, sources: Sources) -> Section:
    pairs = _refusal(failure.refusal)
    pairs.append(("needs", f"{format_bytes(failure.need_bytes)}: {_agreement(failure)}"))
    if failure.limit_bytes is not None and failure.over_bytes is not None:
        pairs.append(("may have", Bytes(failure.limit_bytes)))
        pairs.append(("over by", Bytes(failure.over_bytes)))
    padding = f"{format_bytes(failure.padding_bytes)} of what is alive at the peak"
    pairs.append(("mostly", _roles(failure)))
    pairs.append(("largest", _largest(failure, sources)))
    pairs.append(("padding", padding))
    pairs.append(("holes", f"{format_bytes(failure.free_at_peak_bytes)} of the heap at the peak"))
    if failure.rematerialization:
        pairs.append(("tried", _tried(failure.rematerialization)))
    return Section("Out of memory at compile time", (Facts(tuple(pairs)),))


def _refusal(refusal: Refusal) -> list[tuple[str, Cell]]:
    pairs: list[tuple[str, Cell]] = []
    if refusal.module:
        pairs.append(("module", refusal.module))
    if refusal.code:
        pairs.append(("error", f"{refusal.code}, see {refusal.page}"))
    return pairs


def _agreement(failure: HbmFailure) -> str:
    what = "the sum of all allocations in HBM (compiler)"
    if failure.stated is None:
        return what
    stated = format_bytes(failure.stated.bytes)
    if failure.agrees:
        return f"{what}; the message says {stated}, rounded"
    return f"{what}; the message says {stated}, which is another figure"


def _tried(tried: Rematerialization) -> str:
    """What the compiler's log says of computing values again."""
    target = "an unknown size" if tried.target_bytes is None else format_bytes(tried.target_bytes)
    text = f"computing values again, to bring temporaries to {target}"
    if tried.reached_bytes is None:
        return text
    text += f"; {format_bytes(tried.reached_bytes)} was the least"
    if tried.original_bytes is not None and tried.original_bytes > tried.reached_bytes:
        text += f", down from {format_bytes(tried.original_bytes)}"
    elif tried.original_bytes == tried.reached_bytes:
        text += ", so nothing was saved"
    return text


def _roles(failure: HbmFailure) -> str:
    """The roles that take most: `output 49.8 %, argument 33.2 %`."""
    shares = (f"{g.key} {100 * g.bytes / failure.need_bytes:.1f} %" for g in failure.by_role[:4])
    return ", ".join(shares)


def _largest(failure: HbmFailure, sources: Sources) -> str:
    """The largest buffer with its layer and line."""
    item = next(iter(failure.largest), None)
    if item is None:
        return "unknown"
    parts = [f"{format_bytes(item.bytes)} {item.name}", str(item.shape) if item.shape else ""]
    parts.append(f"layer {item.layer}" if item.layer else "")
    parts.append(cell_text(sources.line(item.line)) if item.line.line else "")
    return ", ".join(filter(None, parts))


def _estimates(estimates: Estimates) -> Section:
    blocks: list[Block] = []
    if estimates.found:
        rows = tuple(
            (
                e.change,
                Bytes(e.need_bytes),
                Bytes(e.saved_bytes),
                {True: "yes", False: "no", None: "unknown"}[e.fits],
                Count(e.count),
            )
            for e in estimates.found
        )
        columns = (
            Column("change"),
            Column("would need", Basis.MODELLED),
            Column("saves", Basis.MODELLED),
            Column("would fit", Basis.MODELLED),
            Column("buffers", Basis.COMPILER),
        )
        blocks.append(Table(columns, rows))
        blocks += [Note(f"{e.change}: {e.assumes}.") for e in estimates.found]
    blocks += [Note(f"{text}.") for text in estimates.others]
    blocks.append(
        Note(
            "These are estimates: bytes of the same program's buffers, with the holes in its heap as "
            "they are. Only a compile decides (vtpu check), and memory does not fall evenly with the "
            "batch."
        )
    )
    return Section("What would help (estimates)", tuple(blocks))


# ---- kernels -----------------------------------------------------------------------------------


def kernel_blocks(failure: KernelFailure, sources: Sources) -> tuple[Block, ...]:
    """What is known of a kernel that does not fit, but for the sizes of the message."""
    pairs: list[tuple[str, Cell]] = [("kernel", failure.kernel)]
    if failure.is_users_kernel is False:
        pairs.append(("whose", "the compiler's own: not a user's block size"))
    if failure.layer:
        pairs.append(("layer", failure.layer))
    if failure.line.line:
        pairs.append(("line", sources.line(failure.line)))
    if failure.buffer:
        pairs.append(("buffer", failure.buffer))
    pairs += [("operand", text) for text in failure.operands]
    pairs += [("result", text) for text in failure.results]
    pairs += [(f"block {name}", " x ".join(map(str, s))) for name, s in failure.block_sizes]
    facts = Facts(tuple(pairs))
    return (facts, _windows(failure.windows)) if failure.windows else (facts,)


def _kernel(failure: KernelFailure, sources: Sources) -> Section:
    pairs = _refusal(failure.refusal)
    for name, size in (
        ("needs", failure.need),
        ("limit", failure.limit),
        ("over by", failure.over),
    ):
        if size is not None:
            pairs.append((name, f"{format_bytes(size.bytes)} of {failure.space} (compiler)"))
    blocks = (Facts(tuple(pairs)), *kernel_blocks(failure, sources), Note(_about_limit(failure)))
    return Section(f"A kernel does not fit into {failure.space.upper()}", blocks)


def _windows(windows: tuple[Window, ...]) -> Table:
    rows = tuple(
        (
            w.operand,
            w.shape,
            w.full_shape or None,
            None if w.size is None else Bytes(w.size.bytes),
            {True: "double", False: "single", None: None}[w.is_double_buffered],
        )
        for w in windows
    )
    columns = (
        Column("window of"),
        Column("block"),
        Column("whole"),
        Column("bytes", Basis.COMPILER),
        Column("buffered"),
    )
    return Table(columns, rows)


def _about_limit(failure: KernelFailure) -> str:
    if failure.is_over_the_chip:
        return f"It exceeds all {failure.space} of the chip: no limit helps, only smaller blocks."
    if failure.takes_whole_operands:
        whole = (
            "Its size is that of all operands and results as they are: the kernel has no blocks "
        )
        return whole + f"(grid and BlockSpecs). {_raise_limit(failure)}"
    return (
        "The size counts windows (twice when double buffered), scratch and spills together; the "
        f"message does not list them. {_raise_limit(failure)}"
    )


def _raise_limit(failure: KernelFailure) -> str:
    if failure.need is None:
        return f"The limit is the compile option {VMEM_OPTION}."
    kib = -(-failure.need.high // KIB)
    return (
        f"The limit is the compile option {VMEM_OPTION} ({kib:,} KiB would do, "
        "if the chip has as much VMEM), or vmem_limit_bytes of the kernel's CompilerParams."
    )
