"""What differs in the memory of two programs, as sections of a report."""

from __future__ import annotations

from collections.abc import Sequence

from vtpu.analysis.diff.changes import Figure, Pair
from vtpu.analysis.diff.memory import Buffer, MemoryDiff, Part, SpaceDiff
from vtpu.evidence import Basis
from vtpu.program.memory import MemorySpace
from vtpu.report.document import (
    Block,
    Bytes,
    BytesChange,
    Cell,
    Column,
    NoFigure,
    Note,
    Section,
    Table,
)
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_bytes

_MOST_ROWS = 15
_GROUPINGS = ("argument", "role", "layer", "line", "dtype")


def memory_sections(
    diff: MemoryDiff, before: Sources, after: Sources, of: str = ""
) -> tuple[Section, ...]:
    """The sections of the spaces that differ; `of` names the program in their headings."""
    different = [space for space in diff.spaces if not space.is_empty]
    if not different:
        return ()
    blocks: list[Block] = []
    if sizes := [s for s in different if s.total_bytes.differs or s.peak_bytes.differs]:
        blocks.append(_totals(sizes))
    if elsewhere := [note for s in different if (note := _elsewhere(s))]:
        text = f"{', '.join(elsewhere)}: these are alive at no peak; the JSON report lists them."
        blocks.append(Note(text))
    shown = (space for space in different if space.color != MemorySpace.SFLAG)  # semaphores
    details = (s for space in shown for s in _space(space, before, after, of))
    return (Section(_heading("memory", of), tuple(blocks)), *details)


def _elsewhere(space: SpaceDiff) -> str:
    """How many buffers differ that are alive at neither peak; empty without any."""
    count = sum(not _counts(pair) for pair in space.buffers)
    verb = "differs" if count == 1 else "differ"
    return f"{counted(count, 'buffer')} of {space.space} {verb}" if count else ""


def _heading(text: str, of: str) -> str:
    return f"{of}: {text}" if of else text[0].upper() + text[1:]


def _totals(spaces: Sequence[SpaceDiff]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for space in spaces:
        rows += [
            (f"{space.space} set aside", *_cells(space.total_bytes)),
            *((f"  {_name(kind)}", *_cells(_bytes(kind))) for kind in space.by_kind),
            ("  alive at the peak", *_cells(space.peak_bytes)),
            ("  of that padding", *_cells(space.padding_bytes)),
            ("  free at the peak", *_cells(space.free_at_peak_bytes)),
        ]
    return Table((Column("bytes per device"), *_FIGURES), tuple(rows))


_FIGURES = (
    Column("before", Basis.COMPILER),
    Column("after", Basis.COMPILER),
    Column("difference", Basis.COMPILER),
)


def _cells(figure: Figure) -> tuple[Cell, ...]:
    return size_cell(figure.before), size_cell(figure.after), change_cell(figure.delta)


def size_cell(size: int | None) -> Cell:
    """A size; a dash where there is none."""
    return NoFigure() if size is None else Bytes(size)


def change_cell(delta: int | None) -> Cell:
    """By how much a size differs; a dash where one of them is not known."""
    return NoFigure() if delta is None else BytesChange(delta)


def _bytes(pair: Pair[Part]) -> Figure:
    """The bytes of a pair; unknown stands for the side that is not there."""
    return Figure(
        pair.before.bytes if pair.before else None, pair.after.bytes if pair.after else None
    )


def _name(pair: Pair[Part]) -> str:
    part = pair.after or pair.before
    return part.name if part else ""


# ---- the peak ----------------------------------------------------------------------------------


def _space(space: SpaceDiff, before: Sources, after: Sources, of: str) -> tuple[Section, ...]:
    delta = space.peak_bytes.delta or 0
    sections: list[Section] = []
    tables: list[Block] = []
    for grouping in _GROUPINGS:
        pairs: tuple[Pair[Part], ...] = getattr(space, f"by_{grouping}")
        if pairs:
            tables.append(_parts(grouping, pairs, before, after))
    if tables:
        sign = "+" if delta > 0 else ""
        note = Note(
            f"Compared is what is alive at the peak of either. The differences of each table sum to "
            f"that of the peak, {sign}{format_bytes(delta)}."
        )
        sections.append(Section(_heading(f"{space.space} at the peak", of), (note, *tables)))
    if at_peak := [pair for pair in space.buffers if _counts(pair)]:
        table = _buffers(at_peak, before, after)
        sections.append(Section(_heading(f"buffers of {space.space} at the peak", of), (table,)))
    return tuple(sections)


def _parts(grouping: str, pairs: tuple[Pair[Part], ...], before: Sources, after: Sources) -> Table:
    rows = tuple(
        (
            _place(pair, before, after),
            str(pair.change),
            *_cells(_bytes(pair))[:2],
            change_cell(pair.delta_bytes),
            _padding(pair),
        )
        for pair in pairs[:_MOST_ROWS]
    )
    padding = Column("of it padding", Basis.COMPILER, is_minor=True)
    columns = (Column(grouping), Column("change"), *_FIGURES, padding)
    return Table(columns, rows, max(0, len(pairs) - _MOST_ROWS))


def _padding(pair: Pair[Part]) -> Cell:
    before = pair.before.padding_bytes if pair.before else 0
    after = pair.after.padding_bytes if pair.after else 0
    return change_cell(Figure(before, after).delta)


def _place(pair: Pair[Part], before: Sources, after: Sources) -> Cell:
    """A part by its name; one of a line by its line, where it is or was."""
    if pair.after:
        return after.line(pair.after.line) if pair.after.line else pair.after.name
    if pair.before and pair.before.line:
        return before.line(pair.before.line)
    return _name(pair)


# ---- single buffers ----------------------------------------------------------------------------


def _buffers(pairs: Sequence[Pair[Buffer]], before: Sources, after: Sources) -> Table:
    rows = tuple(_buffer(pair, before, after) for pair in pairs[:_MOST_ROWS])
    columns = (
        Column("buffer"),
        Column("change"),
        *_FIGURES,
        Column("shape", wraps=True),
        Column("role", is_minor=True),
        Column("line"),
    )
    return Table(columns, rows, len(pairs) - len(rows))


def _counts(pair: Pair[Buffer]) -> bool:
    """Whether it is alive at the peak of either program."""
    return any(buffer and buffer.bytes for buffer in (pair.before, pair.after))


def _buffer(pair: Pair[Buffer], before: Sources, after: Sources) -> tuple[Cell, ...]:
    one, other = pair.before, pair.after
    shown, sources = (other, after) if other else (one, before)
    assert shown is not None  # a pair has one of them at least
    return (
        shown.name,
        _fate(one, other) or str(pair.change),
        size_cell(one.bytes if one else None),
        size_cell(other.bytes if other else None),
        change_cell(pair.delta_bytes),
        _different(_shape(one), _shape(other)),
        _different(one and str(one.role), other and str(other.role)),
        sources.line(shown.line) if shown.line else "",
    )


def _fate(before: Buffer | None, after: Buffer | None) -> str:
    """What became of a buffer that both have, and one of them not at the peak."""
    if not before or not after or bool(before.bytes) == bool(after.bytes):
        return ""
    return "at the peak now" if after.bytes else "no longer at the peak"


def _shape(buffer: Buffer | None) -> str | None:
    if buffer is None:
        return None
    return (buffer.shape or buffer.opcode) + (" donated" if buffer.is_donated else "")


def _different(before: str | None, after: str | None) -> str:
    """A text before and after; one of them where they are alike, or one is not there."""
    if before is None or after is None or before == after:
        return after or before or ""
    return f"{before} → {after}"
