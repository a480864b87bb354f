"""Sections about padding: per memory space what it costs, which arrays, which dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.padding import Cause, PaddedItem, PaddingKind, SpacePadding
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.program.memory import AllocationKind
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Line,
    NoFigure,
    Note,
    Section,
    Share,
    Table,
)
from vtpu.units import counted, format_bytes

_MOST_ROWS = 12
#: What takes less of a memory's peak is a row of the JSON report only.
LEAST_SHARE = 0.0001
_ABOUT = (
    "Tiles and layouts are those that the compiler states; padded sizes follow from them. Sizes that "
    "would not pad are the nearest ones for the dimension alone: the compiler may choose another "
    "layout for them."
)


def padding_sections(
    spaces: Sequence[SpacePadding], line: Callable[[SourceLine], Line]
) -> tuple[Section, ...]:
    """The padding of some memory spaces; one where nothing pads has no section."""
    return tuple(_section(space, line) for space in spaces if space.rows or space.unexplained)


def _section(space: SpacePadding, line: Callable[[SourceLine], Line]) -> Section:
    blocks: list[Block] = [_totals(space)]
    if space.rows:
        blocks += _rows(space, line)
    if space.unexplained:
        blocks.append(_unexplained(space.unexplained))
    return Section(f"Padding in {space.name}", (*blocks, Note(_ABOUT)))


def _totals(space: SpacePadding) -> Table:
    columns = (
        Column("alive at the peak", Basis.COMPILER),
        Column("elements", Basis.COMPILER),
        Column("padding", Basis.COMPILER),
        Column("of peak", Basis.COMPILER),
        Column("not explained", Basis.COMPILER),
        Column("no arrays", Basis.COMPILER),
    )
    row = (
        Bytes(space.peak_bytes),
        Bytes(space.logical_bytes),
        Bytes(space.wasted_bytes),
        Share(space.wasted_bytes, space.peak_bytes),
        Bytes(space.unexplained_bytes),
        Bytes(space.not_array_bytes),
    )
    return Table(columns, (row,))


def _rows(space: SpacePadding, line: Callable[[SourceLine], Line]) -> list[Block]:
    """The rows that waste most; nothing where none wastes anything that counts."""
    columns = (
        Column("array"),
        Column("shape", Basis.COMPILER),
        Column("padded to", Basis.COMPILER, is_minor=True),
        Column("wasted", Basis.COMPILER),
        Column("times", Basis.COMPILER),
        Column("at peak", is_minor=True),
        Column("because", wraps=True),
        Column("would not pad", is_minor=True),
        Column("line"),
    )
    least = space.peak_bytes * LEAST_SHARE
    shown = [row for row in space.rows if row.wasted_bytes >= least][:_MOST_ROWS]
    left_out = len(space.rows) - len(shown)
    if not shown:
        what = counted(left_out, "array")
        return [Note(f"{what} with padding, each less than {LEAST_SHARE:.2%} of the peak.")]
    return [Table(columns, tuple(_row(row, line) for row in shown), left_out)]


def _row(row: PaddedItem, line: Callable[[SourceLine], Line]) -> tuple[Cell, ...]:
    fills = " or ".join(f"{size:,}" for size in row.cause.sizes_that_fill)
    return (
        row.item.name,
        str(row.shape),
        _dims(row.padded_dims),
        Bytes(row.wasted_bytes),
        f"{row.factor:.2f}",
        "yes" if row.is_at_peak else "no",
        cause_text(row.cause, row.tile),
        fills or NoFigure(),
        _place(row.item, line),
    )


def cause_text(cause: Cause, tile: tuple[int, ...]) -> str:
    """A cause in words: `minor dimension 1: 3 to 128 by tile (8,128)`."""
    grows = f"{cause.size:,} to {cause.padded:,}"
    if cause.kind is PaddingKind.STORAGE:
        return f"{cause.kind}: {cause.size} bits in {cause.padded}"
    if cause.dimension is None:
        return f"{cause.kind}: {grows} elements by tile {_dims(tile)}"
    return f"{cause.kind} {cause.dimension}: {grows} by tile {_dims(tile)}"


def _dims(dims: tuple[int, ...]) -> str:
    return f"({','.join(map(str, dims))})"


def _place(item: MemoryItem, line: Callable[[SourceLine], Line]) -> Cell:
    if item.occupant.kind is AllocationKind.ARGUMENT:
        return item.place
    return line(item.line) if item.line.line else NoFigure()


def _unexplained(items: tuple[MemoryItem, ...]) -> Note:
    first = items[0]
    padded = format_bytes(first.shape.padded_bytes) if first.shape else "unknown"
    return Note(
        f"The size that the compiler placed does not follow from the layout of {counted(len(items), 'array')}, "
        f"such as {first.name}: {format_bytes(first.bytes)} placed, {padded} by {first.shape}.",
        is_warning=True,
    )
