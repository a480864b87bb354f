"""XLA:TPU's long message while it is put together from its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vtpu.reading.messages.tables import Block, Output, Part, Usage
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size
from vtpu.reading.text_dumps.usage_report import SpaceUsage


@dataclass(slots=True)
class BlockDraft:
    """A memory's total with its parts."""

    space: str | None
    total: PrintedSize | None
    parts: list[Part] = field(default_factory=list[Part])
    output: Output | None = None

    def block(self) -> Block:
        """The finished block."""
        return Block(self.space, self.total, tuple(self.parts), self.output)


@dataclass(slots=True)
class EntryDraft:
    """An entry of the table of buffers: its place in the text, its fields as printed."""

    start: int
    end: int
    number: int | None = None
    size: PrintedSize | None = None
    fields: dict[str, str] = field(default_factory=dict[str, str])
    is_closed: bool = False


@dataclass(slots=True)
class Draft:
    """A message: its place in the text and what was found of it."""

    start: int
    end: int
    header: re.Match[str] | None = None
    module: str | None = None
    fits: bool = False
    totals: list[BlockDraft] = field(default_factory=list[BlockDraft])
    requirements: list[BlockDraft] = field(default_factory=list[BlockDraft])
    open_block: BlockDraft | None = None
    table_space: str | None = None
    last_number: int = 0
    entries: list[EntryDraft] = field(default_factory=list[EntryDraft])
    spaces: tuple[SpaceUsage, ...] = ()
    usages: list[Usage] = field(default_factory=list[Usage])
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def open_entry(self) -> EntryDraft | None:
        """The entry that further fields belong to."""
        return self.entries[-1] if self.entries and not self.entries[-1].is_closed else None


def size_in(text: str | None) -> PrintedSize | None:
    """The size that a text is, if it is one."""
    return parse_size(text) if text and re.fullmatch(SIZE, text) else None


def is_decimal(text: str | None) -> bool:
    """Whether a text is a decimal number."""
    return text is not None and re.fullmatch(r"-?\d{1,9}(?:\.\d{1,9})?", text) is not None


def number_in(text: str | None) -> float | None:
    """The decimal number that a text is, if it is one."""
    return float(text) if text is not None and is_decimal(text) else None
