"""Tables about a request that found no room: what was alive, what stood in the way, what would help."""

from __future__ import annotations

from collections.abc import Callable

from vtpu.analysis.replay.obstacles import HeldArray
from vtpu.analysis.replay.what_ifs import WhatIf
from vtpu.analysis.run.memory import AliveGroup
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.report.document import Bytes, Cell, Column, Count, Line, NoFigure, Note, Seconds, Table

_MOST_ALIVE = 8
_MOST_HELD = 8

SourceLines = Callable[[SourceLine], Line]


def why_text(*, is_fragmentation: bool) -> str:
    """What the request lacked."""
    if is_fragmentation:
        return "enough was free, but not in one piece (fragmentation)"
    return "not enough was free"


def alive_table(alive: tuple[AliveGroup, ...], line: SourceLines) -> Table:
    """Everything that was in use, by line."""
    rows = tuple(
        (Bytes(g.bytes), Count(g.count), g.shape, g.program or "host", line(g.line))
        for g in alive[:_MOST_ALIVE]
    )
    columns = (
        Column("alive", Basis.SIMULATED),
        Column("arrays", Basis.SIMULATED),
        Column("shape"),
        Column("made by"),
        Column("line"),
    )
    return Table(columns, rows, max(0, len(alive) - _MOST_ALIVE))


def in_the_way_table(held: tuple[HeldArray, ...], line: SourceLines) -> Table:
    """The arrays without which the request would have found one piece."""
    rows = tuple(
        (
            Bytes(h.bytes),
            f"{h.address:#x}",
            h.shape,
            h.program or "host",
            Seconds(h.since_s),
            line(h.line),
        )
        for h in held[:_MOST_HELD]
    )
    columns = (
        Column("in the way", Basis.SIMULATED),
        Column("address", Basis.SIMULATED),
        Column("shape"),
        Column("made by"),
        Column("made after", Basis.MEASURED, is_minor=True),
        Column("line"),
    )
    return Table(columns, rows, max(0, len(held) - _MOST_HELD))


def what_if_blocks(what_ifs: tuple[WhatIf, ...], line: SourceLines) -> tuple[Table, Note]:
    """What other ways to do it would have brought the request that failed, and what that means."""
    text = "`yes`: this request finds room then. Whether the next ones do is not known."
    return what_if_table(what_ifs, line), Note(text)


def what_if_table(what_ifs: tuple[WhatIf, ...], line: SourceLines) -> Table:
    """What other ways to do it would have brought, as replayed."""
    rows = tuple(
        (
            w.what,
            _verdict(w.avoids_failure),
            Bytes(w.peak_bytes),
            _size_then(w.largest_free_bytes),
            _size_then(w.reservable_bytes),
            line(w.line) if w.line else "",
        )
        for w in what_ifs
    )
    columns = (
        Column("what if: replayed", wraps=True),
        Column("avoids it", Basis.SIMULATED),
        Column("peak", Basis.SIMULATED),
        Column("largest free then", Basis.SIMULATED),
        Column("reservable then", Basis.SIMULATED),
        Column("line"),
    )
    return Table(columns, rows)


def _verdict(avoids: bool | None) -> Cell:
    if avoids is None:
        return NoFigure("nothing failed")
    return "yes" if avoids else "no"


def _size_then(size: int | None) -> Cell:
    return NoFigure("fails earlier") if size is None else Bytes(size)
