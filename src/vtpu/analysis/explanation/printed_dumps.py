"""What XLA's printed reports tell by themselves, without the module: allocations, slots, live values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from vtpu.program.memory import space_name
from vtpu.reading.recognize import Kind
from vtpu.reading.text_dumps.assignment_values import kind_of
from vtpu.reading.text_dumps.buffer_assignment import (
    Allocation,
    BufferAssignmentText,
    read_buffer_assignment_text,
)
from vtpu.reading.text_dumps.live_range import LiveRangeText, read_live_range
from vtpu.reading.text_dumps.usage_report import SpaceUsage, UsageReport, read_usage_report


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedPiece:
    """A piece of memory as a report prints it. `values`: how many share it in turn."""

    bytes: int
    what: str
    memory: str
    kind: str
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedExplained:
    """A printed report: totals by memory and kind, pieces largest first, what was not understood.

    `about`: what its sizes are and what it does not hold.
    """

    name: str
    title: str
    totals: tuple[tuple[str, int], ...]
    pieces: tuple[PrintedPiece, ...]
    about: str
    unknown: tuple[tuple[int, str], ...]
    problems: tuple[str, ...]


def explain_printed(name: str, kind: Kind, text: str) -> PrintedExplained:
    """A buffer assignment, a memory usage report or live ranges, as XLA prints them."""
    if kind is Kind.BUFFER_ASSIGNMENT:
        return _assignment(name, read_buffer_assignment_text(text))
    if kind is Kind.USAGE_REPORT:
        return explain_usage(name, read_usage_report(text))
    return _live_range(name, read_live_range(text))


def _sorted(pieces: list[PrintedPiece]) -> tuple[PrintedPiece, ...]:
    return tuple(sorted(pieces, key=lambda p: (-p.bytes, p.what)))


# ---- buffer assignment -------------------------------------------------------------------------


def _assignment(name: str, found: BufferAssignmentText) -> PrintedExplained:
    totals: Counter[str] = Counter()
    for allocation in found.allocations:
        totals[f"{space_name(allocation.color)}: {kind_of(allocation)}"] += allocation.size
    pieces = [_allocation(a) for a in found.allocations]
    return PrintedExplained(
        name=name,
        title="Allocations",
        totals=tuple(totals.most_common()),
        pieces=_sorted(pieces),
        about="Bytes as allocated, padding included. Lines and layers are in the module, not here.",
        unknown=found.unknown,
        problems=found.problems,
    )


def _allocation(found: Allocation) -> PrintedPiece:
    largest = max(found.values, key=lambda v: v.size or 0, default=None)
    what = f"{largest.name}{largest.index}" if largest else f"allocation {found.number}"
    shape = largest.shape_text if largest else None
    return PrintedPiece(
        bytes=found.size,
        what=f"{what}: {shape}" if shape else what,
        memory=space_name(found.color),
        kind=str(kind_of(found)),
        values=len(found.values),
    )


# ---- usage report ------------------------------------------------------------------------------


def explain_usage(name: str, found: UsageReport) -> PrintedExplained:
    """A memory usage report, from its text or its proto."""
    return PrintedExplained(
        name=name,
        title="Slots of the memory usage report",
        totals=tuple(
            (space_name(s.color), s.total_bytes) for s in found.spaces if s.total_bytes is not None
        ),
        pieces=_sorted([piece for space in found.spaces for piece in _slots(space)]),
        about="A slot is a place that values share in turn; its size is rounded, as it is printed.",
        unknown=found.unknown,
        problems=found.problems,
    )


def _slots(space: SpaceUsage) -> list[PrintedPiece]:
    return [
        PrintedPiece(
            bytes=slot.size.bytes,
            what=", ".join(
                f"{s.count} x {s.text}" if s.count > 1 else s.text for s in slot.shapes[:4]
            ),
            memory=space_name(space.color),
            kind="",
            values=slot.values,
        )
        for allocation in space.allocations
        for slot in allocation.slots
    ]


# ---- live ranges -------------------------------------------------------------------------------


def _live_range(name: str, found: LiveRangeText) -> PrintedExplained:
    pieces = [
        PrintedPiece(bytes=v.logical_bytes, what=f"{v.name}{v.index}", memory="", kind="", values=1)
        for v in found.peak
    ]
    moment = "" if found.peak_at is None else f", at moment {found.peak_at:,} of the schedule"
    return PrintedExplained(
        name=name,
        title="Alive at the peak",
        totals=((f"alive at the peak{moment}", sum(p.bytes for p in pieces)),),
        pieces=_sorted(pieces),
        about="Bytes without padding, as this report counts them: what is allocated is more.",
        unknown=found.unknown,
        problems=found.problems,
    )
