"""A table as lines of text that fit a width. Numbers and places are never cut.

What does not fit beside the numbers goes on rows of its own: first source lines and long texts, below
the numbers; then other texts, the first column above them. Then minor columns are left out. Where not
even that fits, each row becomes a list of headings with values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size

from vtpu.report.cells import cell_text, place_text, shortened, visible, wrapped
from vtpu.report.document import (
    Bytes,
    BytesChange,
    Cell,
    Count,
    CountChange,
    Flops,
    Line,
    NoFigure,
    Rate,
    Seconds,
    SecondsChange,
    Share,
    Table,
)

_GAP = "  "
_INDENT = "  "
_DEEPER = "      "
_LEAST_SOURCE = 24  # of a line's text beside numbers; less says nothing
_LEAST_WRAPPED = 36
_FIGURES = (
    Bytes, Seconds, SecondsChange, Rate, Count, Flops, BytesChange, CountChange, Share, NoFigure,
)  # fmt: skip

Kind = Literal["heading", "row", "detail"]


@dataclass(frozen=True, slots=True)
class TableText:
    """The lines of a table, and the headings of what had no room."""

    lines: tuple[tuple[Kind, str], ...]
    left_out: tuple[str, ...] = ()


def lay_out(table: Table, width: int) -> TableText:
    """A table in lines of at most `width`."""
    columns = [_Column.of(table, i) for i in range(len(table.columns))]
    for plan in _plans(columns):
        if plan.least_width <= width:
            return plan.text(table, width)
    return _as_lists(table, columns, width)


@dataclass(frozen=True, slots=True)
class _Column:
    index: int
    heading: str
    is_figure: bool
    is_flexible: bool  # a source line or a text that wraps
    is_minor: bool
    least: int
    most: int

    @classmethod
    def of(cls, table: Table, index: int) -> _Column:
        column = table.columns[index]
        cells = [row[index] for row in table.rows]
        most = max(map(cell_len, _lines_of([column.heading, *map(cell_text, cells)])))
        least = most
        if column.wraps:
            least = min(most, _LEAST_WRAPPED)
        elif any(isinstance(cell, Line) for cell in cells):
            least = max(cell_len(column.heading), *map(_least_width, cells))
        return cls(
            index=index,
            heading=column.heading,
            is_figure=any(isinstance(cell, _FIGURES) for cell in cells),
            is_flexible=column.wraps or any(isinstance(cell, Line) for cell in cells),
            is_minor=column.is_minor,
            least=least,
            most=most,
        )


def _lines_of(texts: list[str]) -> list[str]:
    return [line for text in texts for line in text.split("\n")]


def _least_width(cell: Cell) -> int:
    whole = cell_len(cell_text(cell))
    if isinstance(cell, Line):
        return min(whole, cell_len(place_text(cell)) + len(_GAP) + _LEAST_SOURCE)
    return whole


def _plans(columns: list[_Column]) -> Iterator[_Plan]:
    """Ways to show a table, the widest first."""
    yield _Plan(columns, [])
    beside = [c for c in columns if not c.is_flexible]
    yield _Plan(beside, [c for c in columns if c.is_flexible])
    texts = sorted((c for c in beside if not c.is_figure), key=lambda c: -c.most)
    for text in texts:
        beside = [c for c in beside if c is not text]
        yield _Plan(beside, [c for c in columns if c not in beside])
    moved = [c for c in columns if c not in beside]
    for minor in [c for c in reversed(beside) if c.is_minor]:
        beside = [c for c in beside if c is not minor]
        left_out = [c for c in columns if c not in beside and c not in moved]
        yield _Plan(beside, moved, tuple(c.heading for c in left_out))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns stand beside each other, which on rows of their own, which nowhere."""

    beside: list[_Column]
    moved: list[_Column]
    left_out: tuple[str, ...] = ()

    @property
    def least_width(self) -> int:
        """The least width at which nothing is cut but source lines; no room without columns."""
        gaps = len(_GAP) * (len(self.beside) - 1)
        return len(_INDENT) + sum(c.least for c in self.beside) + gaps if self.beside else 1 << 30

    def text(self, table: Table, width: int) -> TableText:
        """The table in this way."""
        widths = self._widths(width)
        headings = [[c.heading] for c in self.beside]
        lines: list[tuple[Kind, str]] = [
            ("heading", _side_by_side(self.beside, widths, headings)[0])
        ]
        is_above = any(c.index == 0 for c in self.moved)
        if self.moved:
            heading = (_INDENT if is_above else _DEEPER) + _GAP.join(c.heading for c in self.moved)
            lines.insert(0 if is_above else 1, ("heading", heading))
        for row in table.rows:
            cells = [_fitted(row[c.index], w) for c, w in zip(self.beside, widths, strict=True)]
            numbers = _side_by_side(self.beside, widths, cells)
            moved = [row[c.index] for c in self.moved]
            if is_above:
                lines += _marked("row", _details(moved, _INDENT, width))
                lines += _marked("detail", numbers)
            else:
                lines += _marked("row", numbers)
                lines += _marked("detail", _details(moved, _DEEPER, width))
        return TableText(tuple(lines), self.left_out)

    def _widths(self, width: int) -> list[int]:
        rest = width - self.least_width
        widths: list[int] = []
        for column in self.beside:
            more = min(rest, column.most - column.least)
            widths.append(column.least + more)
            rest -= more
        return widths


def _marked(kind: Kind, texts: list[str]) -> list[tuple[Kind, str]]:
    return [(kind, text) for text in texts]


def _fitted(cell: Cell, width: int) -> list[str]:
    if isinstance(cell, Line):
        return [shortened(cell, width)]
    return wrapped(cell_text(cell), width)


def _side_by_side(columns: list[_Column], widths: list[int], cells: list[list[str]]) -> list[str]:
    """Cells of one or more lines, each in its column."""
    lines: list[str] = []
    for number in range(max(map(len, cells))):
        parts = [
            _padded(cell[number] if number < len(cell) else "", width, column.is_figure)
            for column, width, cell in zip(columns, widths, cells, strict=True)
        ]
        lines.append((_INDENT + _GAP.join(parts)).rstrip())
    return lines


def _padded(text: str, width: int, is_right: bool) -> str:
    if is_right:
        return " " * (width - cell_len(text)) + text
    return set_cell_size(text, max(width, cell_len(text)))


def _details(cells: list[Cell], indent: str, width: int) -> list[str]:
    """Cells on a row of their own; one below the other where they do not fit beside each other."""
    room = width - len(indent)
    least = sum(_least_width(cell) + len(_GAP) for cell in cells if cell_text(cell)) - len(_GAP)
    if least <= room and not any("\n" in cell_text(cell) for cell in cells):
        texts = _beside(cells, room)
        return [indent + _GAP.join(texts)] if texts else []
    first, *rest = [part for cell in cells for part in _alone(cell, room - len(_GAP)) if part]
    return [indent + first, *(indent + _GAP + part for part in rest)]


def _beside(cells: list[Cell], room: int) -> list[str]:
    """Cells in one row, source lines shortened to what the others leave."""
    cells = [cell for cell in cells if cell_text(cell)]
    spare = room - sum(_least_width(c) for c in cells) - len(_GAP) * (len(cells) - 1)
    texts: list[str] = []
    for cell in cells:
        if not isinstance(cell, Line):
            texts.append(cell_text(cell))
            continue
        least = _least_width(cell)
        texts.append(shortened(cell, least + spare))
        spare -= max(0, cell_len(texts[-1]) - least)
    return texts


def _alone(cell: Cell, room: int) -> list[str]:
    """A cell in lines of its own; of a source line the text below where it does not fit."""
    if not isinstance(cell, Line):
        return wrapped(cell_text(cell), room)
    if _least_width(cell) <= room:
        return [shortened(cell, room)]
    return [*wrapped(place_text(cell), room), *wrapped(visible(cell.text), room)]


def _as_lists(table: Table, columns: list[_Column], width: int) -> TableText:
    """Each row as its texts, then its figures by name."""
    lines: list[tuple[Kind, str]] = []
    for row in table.rows:
        texts = [row[c.index] for c in columns if not c.is_figure]
        figures = [f"{c.heading} {cell_text(row[c.index])}" for c in columns if c.is_figure]
        lines += _marked("row", _details(texts, _INDENT, width))
        lines += _marked("detail", _packed(figures, _DEEPER, width))
    return TableText(tuple(lines))


def _packed(items: list[str], indent: str, width: int) -> list[str]:
    """Items one after the other, as many on a line as fit."""
    lines: list[str] = []
    for item in items:
        if lines and cell_len(lines[-1]) + len(_GAP) + cell_len(item) <= width:
            lines[-1] += _GAP + item
        else:
            lines += [indent + part for part in wrapped(item, width - len(indent))]
    return lines
