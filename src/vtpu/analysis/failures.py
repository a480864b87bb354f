"""Requests of memory that did not fit, with what stood in their way; calls that are not simulated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.memory import AliveGroup, alive_at
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventFlag, EventKind, of_kind
from vtpu.recording.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFailure:
    """A request that did not fit into a device's HBM.

    `is_reservation`: of a program's temporaries, which need one block at the bottom of memory.
    `is_fragmentation`: enough bytes were free, but not in one piece.
    """

    device: int
    line: SourceLine
    program: str | None
    wanted_bytes: int
    free_bytes: int
    is_reservation: bool
    is_fragmentation: bool
    alive: tuple[AliveGroup, ...]


def find_memory_failures(recording: Recording, lines: LineFinder) -> tuple[MemoryFailure, ...]:
    """The failures in the order in which they happened."""
    rows = np.flatnonzero(recording.events["kind"] == EventKind.FAILURE)
    return tuple(_failure(recording, int(row), lines) for row in rows)


def _failure(recording: Recording, row: int, lines: LineFinder) -> MemoryFailure:
    event = recording.events[row]
    device = int(event["device"])
    alive = alive_at(recording, device, row, lines)  # with outputs that the same call had placed
    free = recording.run.hbm_bytes - sum(group.bytes for group in alive)
    names = {p.number: p.name for p in recording.programs}
    wanted = int(event["bytes"])
    return MemoryFailure(
        device=device,
        line=lines.line(int(event["stack"])),
        program=names.get(int(event["program"])),
        wanted_bytes=wanted,
        free_bytes=free,
        is_reservation=bool(event["flags"] & EventFlag.RESERVE),
        is_fragmentation=wanted <= free,
        alive=alive,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedCall:
    """A function of the PJRT ABI that something called and vtpu does not simulate."""

    function: str
    line: SourceLine
    count: int


def find_unsupported_calls(recording: Recording, lines: LineFinder) -> tuple[UnsupportedCall, ...]:
    """The calls by function and line."""
    events = of_kind(recording.events, EventKind.UNSUPPORTED)
    names = recording.run.function_names
    counts = Counter((int(e["detail"]), lines.line(int(e["stack"]))) for e in events)
    return tuple(
        UnsupportedCall(
            function=names[number] if number < len(names) else f"function {number}",
            line=line,
            count=count,
        )
        for (number, line), count in counts.most_common()
    )
