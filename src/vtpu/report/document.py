"""A report as a tree of values: sections of facts, tables and notes. Every rendering reads this.

Cells are typed, so that each rendering decides how a value looks; a column says its basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtpu.evidence import Basis


@dataclass(frozen=True, slots=True)
class Bytes:
    """A size."""

    value: int


@dataclass(frozen=True, slots=True)
class Seconds:
    """A duration."""

    value: float


@dataclass(frozen=True, slots=True)
class SecondsChange:
    """By how much a duration differs."""

    value: float


@dataclass(frozen=True, slots=True)
class Rate:
    """An amount per second: of FLOPs, or of bytes in decimal units, as data sheets have them."""

    value: float
    unit: Literal["FLOP", "B"]


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things."""

    value: int


@dataclass(frozen=True, slots=True)
class Flops:
    """A number of floating-point operations."""

    value: float


@dataclass(frozen=True, slots=True)
class BytesChange:
    """By how much a size differs."""

    value: int


@dataclass(frozen=True, slots=True)
class CountChange:
    """By how much a number of things differs."""

    value: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, both in the same unit."""

    part: float
    whole: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's program, its file as people name it; its text where that could be read."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class NoFigure:
    """Stands where a row has no figure, as of a program that did not compile."""

    text: str = "-"


Cell = (
    str
    | Bytes
    | Seconds
    | SecondsChange
    | Rate
    | Count
    | Flops
    | BytesChange
    | CountChange
    | Share
    | NoFigure
    | Line
    | None
)
"""None is unknown, which is shown as such and never as zero."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: heading, where its figures come from.

    `wraps`: its text may take several lines. `is_minor`: it may be left out where there is no room.
    """

    heading: str
    basis: Basis | None = None
    wraps: bool = False
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns. `left_out` rows are not shown."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values."""

    pairs: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence. `is_warning`: something is wrong."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that stand as they are, in a language: `diff`."""

    text: str
    language: str


Block = Table | Facts | Note | Code


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with blocks under it."""

    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    sections: tuple[Section, ...]
