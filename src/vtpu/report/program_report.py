"""The report of one compiled program: does it fit, where does each byte go, what is at the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vtpu.analysis.program.kernel_out_of_memory import KernelFailure
from vtpu.analysis.program.memory import Group, MemoryItem, MemoryUsage, SpaceUsage, group_by
from vtpu.analysis.program.report import Origin, ProgramReport
from vtpu.evidence import Basis
from vtpu.program.memory import AllocationKind, MemorySpace
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.report.failure_report import failure_sections
from vtpu.report.fragmentation_sections import fragmentation_sections
from vtpu.report.padding_sections import LEAST_SHARE, padding_sections
from vtpu.report.program_time_sections import time_sections, time_text
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_bytes

_MOST_ROWS = 15
_BARS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 64
_KINDS = {
    AllocationKind.ARGUMENT: "arguments",
    AllocationKind.OUTPUT: "results",
    AllocationKind.TEMP: "temporaries (the heap)",
    AllocationKind.CONSTANT: "constants",
    AllocationKind.LOCAL: "local to fusions",
}


def program_document(report: ProgramReport, more: Sequence[Section] = ()) -> Document:
    """A program's memory, and its time where that was modelled; `more` are further sections."""
    return Document("vtpu check", (*program_sections(report), *more))


def program_sections(report: ProgramReport) -> tuple[Section, ...]:
    """The sections of `program_document`."""
    sections = [_verdict(report)]
    if report.problems:
        notes = tuple(Note(text, is_warning=True) for text in report.problems)
        sections.append(Section("What could not be read", notes))
    if report.failure:
        sections += failure_sections(report.failure, report.origin.folder)
    usage = report.usage
    is_kernels = isinstance(report.failure, KernelFailure)  # HBM is not what was lacking
    line = Sources(report.origin.folder).line
    times = time_sections(report.time, line) if report.time else ()
    if usage is None or not report.has_assignment or is_kernels:
        return (*sections, *times)
    if usage.hbm:
        sections += [
            _totals(usage.hbm),
            _peak(usage, usage.hbm, line),
            *_groups(usage.hbm, line),
        ]
    if others := [s for s in usage.spaces if s.color != MemorySpace.HBM]:
        sections.append(_other_spaces(usage, others))
    shown = (MemorySpace.HBM, MemorySpace.HOST)  # of the small memories the JSON tells
    sections += padding_sections([p for p in report.padding if p.color in shown], line)
    sections += fragmentation_sections([h for h in report.heaps if h.color in shown])
    if report.figures:
        sections.append(_figures(report))
    return (*sections, *times)


# ---- the verdict -------------------------------------------------------------------------------


def _verdict(report: ProgramReport) -> Section:
    origin = report.origin
    pairs: list[tuple[str, Cell]] = [("program", origin.name)]
    if origin.source:
        pairs.append(("from", origin.source))
    if origin.slice:
        devices = f", {counted(origin.num_devices, 'device')}" if origin.num_devices else ""
        pairs.append(("compiled for", f"{origin.slice}{devices}"))
    if origin.versions:
        pairs.append(("versions", " · ".join(f"{n} {v}" for n, v in origin.versions.items())))
    if origin.compile_s is not None:
        pairs.append(("compiled in", _compile_text(origin)))
    pairs.append(("fits", _fits_text(report)))
    need, limit = report.need_bytes, report.limit_bytes
    if need is not None:
        pairs.append(("needs", f"{format_bytes(need)} of HBM per device (compiler)"))
    if limit is not None:
        pairs.append(("may have", f"{format_bytes(limit)} per device (compiler)"))
    if need is not None and limit is not None:
        pairs.append(_difference(need, limit))
    if report.time:
        pairs.append(("one execution takes", time_text(report.time)))
    blocks: list[Block] = [Facts(tuple(pairs))]
    if report.error:
        blocks.append(Note(f"The compiler: {report.error}", is_warning=True))
    return Section("Does it fit", tuple(blocks))


def _compile_text(origin: Origin) -> Cell:
    seconds = Seconds(origin.compile_s or 0.0)
    if not origin.was_known:
        return seconds
    from vtpu.units import format_seconds

    return f"{format_seconds(seconds.value)}, known from earlier"


def _fits_text(report: ProgramReport) -> str:
    if report.fits is None:
        return "unknown: nothing says for which chip it was compiled"
    return "yes" if report.fits else "no"


def _difference(need: int, limit: int) -> tuple[str, Cell]:
    if need > limit:
        return "over by", Bytes(need - limit)
    return "left", f"{format_bytes(limit - need)} ({100 * (limit - need) / limit:.1f} %)"


# ---- HBM ---------------------------------------------------------------------------------------


def _totals(hbm: SpaceUsage) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (name, Bytes(hbm.by_kind[kind]), Share(hbm.by_kind[kind], hbm.total_bytes))
        for kind, name in _KINDS.items()
        if hbm.by_kind.get(kind)
    ]
    rows.append(("total", Bytes(hbm.total_bytes), Share(hbm.total_bytes, hbm.total_bytes)))
    columns = (
        Column("HBM per device"),
        Column("bytes", Basis.COMPILER),
        Column("of total", Basis.COMPILER),
    )
    donated = sum(
        i.bytes for i in hbm.items if i.occupant.kind is AllocationKind.ARGUMENT and i.is_donated
    )
    note = (
        f"{format_bytes(donated)} of the arguments are donated: results take their memory."
        if donated
        else "No argument is donated: results have memory of their own."
    )
    return Section("What the compiler sets aside", (Table(columns, tuple(rows)), Note(note)))


def _peak(usage: MemoryUsage, hbm: SpaceUsage, line: Callable[..., Cell]) -> Section:
    alive = hbm.at_peak()
    least = hbm.peak_bytes * LEAST_SHARE
    shown = [item for item in alive[:_MOST_ROWS] if item.bytes >= least]
    rows = [_item(item, line) for item in shown]
    if rest := alive[len(shown) :]:
        size = sum(i.bytes for i in rest)
        rows.append((Bytes(size), NoFigure(""), counted(len(rest), "smaller one"), "", "", "", ""))
    holes = (
        Bytes(hbm.free_at_peak_bytes),
        NoFigure(""),
        "free at the peak (holes)",
        "",
        "",
        "",
        "",
    )
    columns = (
        Column("bytes", Basis.COMPILER),
        Column("padding", Basis.COMPILER),
        Column("buffer"),
        Column("shape", is_minor=True),
        Column("role"),
        Column("layer", is_minor=True),
        Column("line"),
    )
    where = usage.order[hbm.peak] if usage.order else "?"
    notes = (
        Note(f"over program order: {_curve(hbm.live)}"),
        Note(
            f"The peak is {format_bytes(hbm.peak_bytes)}, at instruction {hbm.peak + 1:,} of "
            f"{len(usage.order):,}: {where}. What is alive and what is free there are the total. Roles "
            "are judged by names of arguments and JAX's transformations. Copies count as what they "
            "copy, fusions as what they compute."
        ),
    )
    return Section("At the peak", (*notes, Table(columns, (*rows, holes))))


def _item(item: MemoryItem, line: Callable[..., Cell]) -> tuple[Cell, ...]:
    padding = item.padding_bytes
    return (
        Bytes(item.bytes),
        NoFigure() if padding is None else Bytes(padding),
        item.name,
        str(item.shape) if item.shape else "",
        str(item.role),
        item.layer,
        line(item.line) if item.line.line else "",
    )


def _curve(live: np.ndarray) -> str:
    """The curve in a line of text: the largest value in each of its parts."""
    if not len(live):
        return ""
    parts = np.array_split(live, min(_CURVE_WIDTH, len(live)))
    tops = [int(part.max()) for part in parts]
    most = max(tops) or 1
    return "".join(_BARS[round(top / most * (len(_BARS) - 1))] for top in tops)


def _groups(hbm: SpaceUsage, line: Callable[..., Cell]) -> tuple[Section, ...]:
    alive = hbm.at_peak()
    lines = {i.place: line(i.line) for i in alive if i.line.line}
    by: tuple[tuple[str, Callable[[MemoryItem], str]], ...] = (
        ("role", lambda i: str(i.role)),
        ("layer", lambda i: i.layer),
        ("line", lambda i: i.place),
        ("dtype", lambda i: i.dtype),
    )
    tables = tuple(
        _group_table(name, group_by(alive, key), hbm.peak_bytes, lines if name == "line" else {})
        for name, key in by
    )
    return (Section("The peak by role, layer, line and dtype", tables),)


def _group_table(
    name: str, groups: tuple[Group, ...], whole: int, cells: Mapping[str, Cell]
) -> Table:
    """`cells`: how keys look, where not as text."""
    rows = tuple(
        (
            cells.get(g.key, g.key),
            Bytes(g.bytes),
            Share(g.bytes, whole),
            Bytes(g.padding_bytes),
            Count(g.count),
        )
        for g in groups[:_MOST_ROWS]
    )
    columns = (
        Column(name),
        Column("bytes", Basis.COMPILER),
        Column("of peak", Basis.COMPILER),
        Column("padding", Basis.COMPILER),
        Column("buffers", Basis.COMPILER),
    )
    return Table(columns, rows, max(0, len(groups) - _MOST_ROWS))


# ---- the rest ----------------------------------------------------------------------------------


def _other_spaces(usage: MemoryUsage, spaces: list[SpaceUsage]) -> Section:
    rows = tuple(
        (
            s.name,
            Bytes(s.total_bytes),
            Bytes(s.peak_bytes),
            usage.order[s.peak] if usage.order else "",
            largest.name if (largest := next(iter(s.at_peak()), None)) else "",
        )
        for s in spaces
    )
    columns = (
        Column("memory"),
        Column("set aside", Basis.COMPILER),
        Column("alive at peak", Basis.COMPILER),
        Column("peak at"),
        Column("largest there"),
    )
    return Section("Other memories", (Table(columns, rows),))


def _figures(report: ProgramReport) -> Section:
    rows = tuple((f.name, Bytes(f.bytes), f.counts) for f in report.figures)
    columns = (
        Column("figure"),
        Column("bytes", Basis.COMPILER),
        Column("what it counts", wraps=True),
    )
    note = Note("The compiler's figures differ by what they count; a program fits by the first.")
    return Section("The compiler's own figures for HBM", (Table(columns, rows), note))
