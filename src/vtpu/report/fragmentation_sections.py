"""Sections about fragmentation inside a program: how each heap is packed, what is lost, what to try."""

from __future__ import annotations

from collections.abc import Sequence

from vtpu.analysis.program.exact_window import WindowPacking
from vtpu.analysis.program.fragmentation import (
    ALGORITHM_OPTION,
    CompilerFigure,
    HeapFragmentation,
    PackedHeap,
    PeakGap,
    Suggestion,
)
from vtpu.analysis.program.heap_replay import Replays
from vtpu.analysis.program.memory import MemoryItem
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    NoFigure,
    Note,
    Section,
    Share,
    Table,
)
from vtpu.units import counted, format_bytes

_MOST_GAPS = 10


def fragmentation_sections(heaps: Sequence[HeapFragmentation]) -> tuple[Section, ...]:
    """The heaps of a program: one section each, none of a heap with a single buffer and no tables."""
    return tuple(_section(heap) for heap in heaps if not _is_trivial(heap))


def _is_trivial(heap: HeapFragmentation) -> bool:
    is_single = heap.replays is not None and heap.replays.compared == 1
    return is_single and not heap.problem and not heap.tables.count


def _section(heap: HeapFragmentation) -> Section:
    blocks: list[Block] = [_parts(heap)]
    if heap.problem:
        blocks.append(Note(f"This heap cannot be judged: {heap.problem}.", is_warning=True))
    if heap.replays:
        blocks.append(Note(_algorithm(heap.replays)))
    if heap.packed and heap.replays:
        blocks += _inside(heap.packed, heap.replays)
    return Section(f"Packing of temporaries in {heap.name}", tuple(blocks))


def _parts(heap: HeapFragmentation) -> Table:
    """The allocation and its parts, which sum up to it."""
    inside = heap.packed
    columns = (
        Column("reserved", Basis.COMPILER),
        Column("alive at the peak", Basis.COMPILER),
        Column("gaps there", Basis.COMPILER),
        Column("of them alignment", Basis.COMPILER, is_minor=True),
        Column("slots of tuple tables", Basis.COMPILER),
        Column("of reserved", Basis.COMPILER),
        Column("tables", Basis.COMPILER, is_minor=True),
        Column("between those", Basis.COMPILER, is_minor=True),
        Column("peak at"),
    )
    row: tuple[Cell, ...] = (
        Bytes(heap.allocation_bytes),
        Bytes(inside.live_bytes) if inside else None,
        Bytes(inside.gap_bytes) if inside else None,
        Bytes(inside.alignment_bytes) if inside else None,
        Bytes(heap.tables.slot_bytes),
        Share(heap.tables.slot_bytes, heap.allocation_bytes),
        Count(heap.tables.count),
        Bytes(heap.other_bytes),
        inside.peak_instruction if inside else None,
    )
    return Table(columns, (row,))


def _algorithm(replays: Replays) -> str:
    """Which algorithm made the offsets, as far as the replay tells."""
    aligned = (
        f", starts aligned to {format_bytes(replays.alignment)}"
        if replays.alignment and replays.exact
        else ""
    )
    if replays.exact:
        names = " or ".join(replays.exact)
        tell = "" if len(replays.exact) == 1 else " (this heap cannot tell them apart)"
        return (
            f"Packed by {names}{tell}{aligned}: replaying the compiler's trace puts "
            f"{_all(replays.compared)} where the compiler did. (modelled)"
        )
    nearest = replays.nearest
    return (
        f"Packed by an algorithm that is not known: of the known ones {nearest.algorithm} comes nearest, "
        f"with {nearest.agreeing:,} of {counted(replays.compared, 'buffer')} where the compiler put them. "
        "(modelled)"
    )


def _all(count: int) -> str:
    return "its one buffer" if count == 1 else f"all {count:,} buffers"


def _inside(inside: PackedHeap, replays: Replays) -> list[Block]:
    blocks: list[Block] = []
    if inside.gaps:  # without, no packing is smaller
        blocks.append(_replays(inside, replays))
    if inside.suggestion:
        blocks.append(_suggestion(inside.suggestion))
    if inside.gaps:
        blocks.append(_gaps(inside.gaps))
    if inside.compiler_figure:
        blocks.append(_compiler_figure(inside.compiler_figure))
    if inside.exact and inside.gaps:
        blocks += _exact(inside.exact)
    return blocks


def _replays(inside: PackedHeap, replays: Replays) -> Table:
    """Each algorithm's heap, and the two bounds that no packing can be below."""
    columns = (
        Column("packing"),
        Column("heap", Basis.MODELLED),
        Column("buffers where the compiler put them", Basis.MODELLED),
    )
    bounds: tuple[tuple[Cell, ...], ...] = (
        ("at least: bytes alive", Bytes(inside.live_bytes), NoFigure()),
        ("at least: with aligned starts", Bytes(inside.aligned_bytes), NoFigure()),
    )
    rows = tuple((r.algorithm, Bytes(r.heap_bytes), Count(r.agreeing)) for r in replays.found)
    return Table(columns, (*bounds, *rows))


def _suggestion(suggestion: Suggestion) -> Note:
    return Note(
        f"To try: the compile option {ALGORITHM_OPTION}={suggestion.algorithm} would pack this heap in "
        f"{format_bytes(suggestion.heap_bytes)}, {format_bytes(suggestion.saved_bytes)} less, if the "
        "compiler keeps its schedule: an estimate until it is compiled. (modelled)"
    )


def _gaps(gaps: tuple[PeakGap, ...]) -> Table:
    columns = (
        Column("gap at the peak", Basis.COMPILER),
        Column("from address", Basis.COMPILER),
        Column("below it"),
        Column("above it"),
        Column("kind"),
    )
    shown = sorted(gaps, key=lambda gap: (-gap.size, gap.offset))[:_MOST_GAPS]
    rows = tuple(
        (
            Bytes(gap.size),
            Count(gap.offset),
            _neighbour(gap.below, "the heap's start"),
            _neighbour(gap.above, "the heap's end"),
            "alignment" if gap.is_alignment else "hole",
        )
        for gap in shown
    )
    return Table(columns, rows, len(gaps) - len(shown))


def _neighbour(item: MemoryItem | None, otherwise: str) -> str:
    return f"{item.name} ({format_bytes(item.bytes)})" if item else otherwise


def _compiler_figure(figure: CompilerFigure) -> Note:
    shared = (
        f"; it counts the {counted(figure.shared_buffers, 'buffer')} that share memory as if each had "
        "its own, so that it may be too small"
        if figure.shared_buffers
        else ""
    )
    return Note(
        f"libtpu's log says {format_bytes(figure.figures.fragmentation_bytes)} of fragmentation "
        f"(compiler, rounded): {format_bytes(figure.gap_bytes)} are the gaps above, "
        f"{format_bytes(figure.slot_padding_bytes)} what tuple tables do not fill of their slots, "
        f"{format_bytes(figure.unexplained_bytes)} are rounding or not explained{shared}."
    )


def _exact(window: WindowPacking) -> list[Block]:
    what = "the smallest there is" if window.is_optimal else "no smaller one was found in time"
    left_out = f" without its {window.left_out:,} smallest buffers" if window.left_out else ""
    verdict = "An independent checker finds it legal."
    if window.violations:
        verdict = f"An independent checker refuses it: {'; '.join(window.violations[:3])}."
    text = (
        f"The peak alone, from {window.first_instruction} to {window.last_instruction}{left_out}, can be "
        f"packed in {format_bytes(window.heap_bytes)} ({what}); no packing of the whole heap is below "
        f"{format_bytes(window.bound_bytes)}. {verdict} (modelled)"
    )
    return [Note(text, is_warning=bool(window.violations))]
