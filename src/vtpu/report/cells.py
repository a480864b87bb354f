"""Cells of a report as plain text, which nothing reads as markup."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

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
)
from vtpu.units import format_bytes, format_count, format_flops, format_rate, format_seconds

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TAB = "    "
_RULER = Console(file=io.StringIO())  # rich wants one to wrap text


def visible(text: str) -> str:
    r"""Text of the user's or of a library, verbatim; control characters as `\x1b`.

    A terminal would obey those.
    """
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def cell_text(cell: Cell) -> str:  # noqa: C901, PLR0911, PLR0912 - one return per kind of cell
    """A cell as text."""
    match cell:
        case None:
            return "unknown"
        case str():
            return visible(cell)
        case Bytes(value):
            return format_bytes(value)
        case BytesChange(value):
            return _signed(value, format_bytes)
        case CountChange(value):
            return _signed(value, format_count)
        case Seconds(value):
            return format_seconds(value)
        case SecondsChange(value):
            return f"{'-' if value < 0 else '+'}{format_seconds(abs(value))}"
        case Rate(value, unit):
            return format_rate(value, unit)
        case Count(value):
            return format_count(value)
        case Flops(value):
            return format_flops(value)
        case Share(part, whole):
            return f"{100 * part / whole:.1f} %" if whole else "unknown"
        case NoFigure(text):
            return text
        case Line():
            return "  ".join(filter(None, [place_text(cell), visible(cell.text)]))


def _signed(value: int, text: Callable[[int], str]) -> str:
    return f"+{text(value)}" if value > 0 else text(value)


def place_text(line: Line) -> str:
    """Where a line of the user's program is: `train.py:12`."""
    return visible(f"{line.file}:{line.line}" if line.line else line.file)


def shortened(line: Line, width: int) -> str:
    """A line of the user's program in `width`: its text is cut, its place is not."""
    whole, place = cell_text(line), place_text(line)
    if cell_len(whole) <= width:
        return whole
    room = max(width, cell_len(place)) - 1
    return set_cell_size(whole, room).rstrip() + "…" if room > cell_len(place) else place


def wrapped(text: str, width: int) -> list[str]:
    """Text in lines of at most `width`, broken between words where that is possible."""
    if "\n" not in text and cell_len(text) <= width:
        return [text]
    lines = Text(text).wrap(_RULER, max(width, 1), overflow="fold", no_wrap=False)
    return [line.plain.rstrip() for line in lines]
