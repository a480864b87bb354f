"""The products of a program whose results take much memory, by the user's lines."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import UserLines
from vtpu.changes.situation import Situation
from vtpu.changes.source.products import Product, product_of
from vtpu.changes.source.wide_values import UsedWhole, WideValues, follow
from vtpu.program.memory import AllocationKind

_LEAST_SHARE = 0.01  # of what the program needs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WideProduct:
    """A product and what is made of it, or why that cannot be followed. `bytes` are those of what is made of it, at
    the peak.
    """

    file: SourceFile
    product: Product
    values: WideValues | None
    why_not: str
    bytes: int

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file.name}:{self.product.node.lineno}"


def wide_products(situation: Situation, *, ends_where_chosen: bool = False) -> list[WideProduct]:
    """The products that matter for memory, largest first; on request followed to where rows are taken of them."""
    need = situation.program.report.need_bytes or 0
    items = _at_peak(situation)
    found = [
        wide
        for file in _files(situation)
        for node in ast.walk(file.tree)
        if (product := product_of(file, node)) is not None
        if (wide := _followed(file, product, items, ends_where_chosen)) is not None
    ]
    large = [w for w in found if w.bytes >= max(1, need * _LEAST_SHARE)]
    return sorted(large, key=lambda w: -w.bytes)


def _followed(
    file: SourceFile, product: Product, items: Iterable[MemoryItem], ends_where_chosen: bool
) -> WideProduct | None:
    try:
        values = follow(file, product, ends_where_chosen=ends_where_chosen)
        why_not, lines = "", values.lines
    except UsedWhole as why:
        values, why_not, lines = None, str(why), why.lines
    size = sum(i.bytes for i in items if i.line.file == file.name and i.line.line in lines)
    if not size:
        return None
    return WideProduct(file=file, product=product, values=values, why_not=why_not, bytes=size)


def _at_peak(situation: Situation) -> list[MemoryItem]:
    usage = situation.program.report.usage
    items = usage.hbm.at_peak() if usage and usage.hbm else ()
    return [i for i in items if i.occupant.kind is not AllocationKind.ARGUMENT]


def _files(situation: Situation) -> list[SourceFile]:
    """The user's files that the program was traced from."""
    module = situation.program.module
    lines = situation.program.report.lines or UserLines()
    names = (
        {line.file for stack in module.stacks for line in lines.frames(stack)}
        if module
        else set[str]()
    )
    files = [situation.files.get(name) for name in sorted(names)]
    return [f for f in files if f is not None]
