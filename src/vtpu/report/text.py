"""A document in the terminal: tables with rich, plain lines when the output is not a terminal."""

from __future__ import annotations

import os
from typing import IO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    Line,
    Note,
    Seconds,
    Share,
    Table,
)
from vtpu.units import format_bytes, format_count, format_seconds

_PLAIN_WIDTH = 4096  # nothing is cut in a file or a pipe
_NUMBERS = (Bytes, Seconds, Count, Share)


def print_document(document: Document, file: IO[str]) -> None:
    """Prints a document to `file`, in colour when that is a terminal (and `NO_COLOR` is not set)."""
    is_terminal = file.isatty()
    console = Console(
        file=file,
        width=None if is_terminal else _PLAIN_WIDTH,
        highlight=False,
        soft_wrap=False,
        legacy_windows=False,
    )
    console.print(Text(document.title, style="bold"))
    for section in document.sections:
        console.print()
        console.print(Text(section.heading, style="bold cyan"))
        for block in section.blocks:
            _print(console, _renderable(block), is_terminal)
            if isinstance(block, Table) and (remark := _remark(block)):
                _print(console, Padding(Text(remark, style="dim"), (0, 0, 0, 2)), is_terminal)


def _print(console: Console, renderable: RenderableType, is_terminal: bool) -> None:
    """Prints; what is not for a terminal gets no blanks at the end of its lines."""
    if is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    lines = [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]
    console.file.write("\n".join(lines) + "\n")


def _renderable(block: Block) -> RenderableType:
    if isinstance(block, Note):
        style = "yellow" if block.is_warning else ""
        return Padding(Text(block.text, style=style), (0, 0, 0, 2))
    if isinstance(block, Facts):
        return _facts(block)
    return _table(block)


def _facts(facts: Facts) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column()
    grid.add_column(overflow="fold")
    for name, value in facts.pairs:
        grid.add_row("", Text(name, style="dim"), cell_text(value))
    return grid


def _table(table: Table) -> RichTable:
    rich = RichTable(
        box=None,
        pad_edge=False,
        show_edge=False,
        header_style="dim",
        padding=(0, 2, 0, 0),
    )
    rich.add_column("", width=1)
    for index, column in enumerate(table.columns):
        is_number = any(isinstance(row[index], _NUMBERS) for row in table.rows)
        texts = [column.heading, *(cell_text(row[index]) for row in table.rows)]
        rich.add_column(
            column.heading,
            justify="right" if is_number else "left",
            overflow="fold" if column.wraps else "ellipsis",
            no_wrap=not column.wraps,
            min_width=max(map(len, texts)) if is_number else None,
        )
    for row in table.rows:
        rich.add_row("", *(cell_text(cell) for cell in row))
    return rich


def _remark(table: Table) -> str:
    """What stands under a table: where its figures come from, how much is not shown."""
    left_out = f"{table.left_out} more rows are in the JSON report" if table.left_out else ""
    return "; ".join(filter(None, [basis_text(table.columns), left_out]))


def basis_text(columns: tuple[Column, ...]) -> str:
    """Where the figures of a table come from: `compiler: arguments, outputs; simulated: calls`."""
    by_basis: dict[str, list[str]] = {}
    for column in columns:
        if column.basis:
            by_basis.setdefault(str(column.basis), []).append(column.heading)
    return "; ".join(f"{basis}: {', '.join(names)}" for basis, names in by_basis.items())


def cell_text(cell: Cell) -> str:  # noqa: PLR0911 - one return per kind of cell
    """A cell as text."""
    match cell:
        case None:
            return "unknown"
        case str():
            return cell
        case Bytes(value):
            return format_bytes(value)
        case Seconds(value):
            return format_seconds(value)
        case Count(value):
            return format_count(value)
        case Share(part, whole):
            return f"{100 * part / whole:.1f} %" if whole else "unknown"
        case Line():
            return line_text(cell)


def line_text(line: Line) -> str:
    """A line of the user's program: `train.py:12 in step`, then its text."""
    place = f"{_short(line.file)}:{line.line}" if line.line else line.file
    return f"{place}  {line.text}".rstrip()


def _short(file: str) -> str:
    """A path relative to the current folder where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):
        return file
    return relative if len(relative) < len(file) and not relative.startswith("..") else file
