"""What the collectives are for that the core waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from vtpu.analysis.program.pieces import Piece, are_of_parameters
from vtpu.analysis.source_lines import SourceLine
from vtpu.analysis.time.rows import OperationRow
from vtpu.program.modules import Module
from vtpu.program.op_names import Phase
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.work import CollectivePart, collective_in

_WINDOWED = (
    "windowed_dot"  # how XLA names the loops into which it cuts a product and its collective
)
_SUMS = ("all-reduce", "reduce-scatter")


class Purpose(StrEnum):
    """What a collective brings to other devices."""

    GRADIENTS = "gradients"
    PARAMETERS = "parameters"
    ACTIVATIONS = "activations"
    PIECES = "pieces of a matrix product"
    EXCHANGE = "parts of arrays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Collectives of one kind and purpose, from one line.

    `seconds` is how long the core waits for them, `alone_s` how long they are on the links; `devices` work
    together in each.
    """

    kind: str
    purpose: Purpose
    line: SourceLine
    devices: int
    runs: float
    seconds: float
    alone_s: float
    link_bytes: int


def waits_for_collectives(
    module: Module, rows: Iterable[OperationRow], arguments: tuple[Piece, ...]
) -> tuple[Waits, ...]:
    """The collectives among `rows`, those that are waited for longest first."""
    together: dict[tuple[str, Purpose, SourceLine, int], list[OperationRow]] = {}
    for row in rows:
        part = collective_in(module, row.instruction)
        if row.is_communication and part:
            key = (
                row.kind,
                _purpose(module, row, part, arguments),
                row.line,
                devices_of(module, part),
            )
            together.setdefault(key, []).append(row)
    found = [
        Waits(
            kind=kind,
            purpose=purpose,
            line=line,
            devices=devices,
            runs=sum(r.time.runs for r in members),
            seconds=sum(r.seconds for r in members),
            alone_s=sum(r.alone_s or 0.0 for r in members),
            link_bytes=sum(r.link_bytes for r in members),
        )
        for (kind, purpose, line, devices), members in together.items()
    ]
    return tuple(sorted(found, key=lambda w: -w.seconds))


def devices_of(module: Module, part: CollectivePart) -> int:
    """How many devices work together in a collective; of a permutation all that take part."""
    collective = part.collective.collective
    if collective and collective.pairs:
        return len({device for pair in collective.pairs for device in pair})
    return len(collective.groups[0]) if collective and collective.groups else len(module.devices)


def _purpose(
    module: Module, row: OperationRow, part: CollectivePart, arguments: tuple[Piece, ...]
) -> Purpose:
    if _WINDOWED in module.computations[row.time.computation].name:
        return Purpose.PIECES
    if row.kind not in (*_SUMS, "all-gather"):
        return Purpose.EXCHANGE
    shape = (
        module.by_id[part.collective.operands[0]].shape
        if row.kind == "reduce-scatter"
        else part.result
    )
    arrays = [s for _, s in leaves(shape) if isinstance(s, ArrayShape)]
    if not arrays or not all(are_of_parameters(a.dims, arguments) for a in arrays):
        return Purpose.ACTIVATIONS
    if row.kind == "all-gather":
        return Purpose.PARAMETERS
    is_forward = row.phase in (Phase.FORWARD, Phase.RECOMPUTED)
    return Purpose.ACTIVATIONS if is_forward else Purpose.GRADIENTS
