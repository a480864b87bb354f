"""Requests of memory that did not fit, with what stood in their way; calls that are not simulated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.replay.addresses import gaps_between, in_the_way, recorded_blocks
from vtpu.analysis.replay.obstacles import HeldArray, held_arrays
from vtpu.analysis.replay.requests import requests_of
from vtpu.analysis.replay.what_if_context import Context
from vtpu.analysis.replay.what_ifs import MOST_UNASKED, WhatIf, find_what_ifs
from vtpu.analysis.run.memory import AliveGroup, alive_at
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.hbm import Arena
from vtpu.recording.events import EventFlag, EventKind, of_kind
from vtpu.recording.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFailure:
    """A request that did not fit into a device's HBM.

    `is_reservation`: of a program's temporaries, which need one block at the bottom of memory.
    `is_fragmentation`: enough bytes were free, but not in one piece; `in_the_way`: the arrays without
    which they would have been. `what_ifs`: what would have helped, of the first failure only; null
    where the run is too long to try that unasked.
    """

    device: int
    line: SourceLine
    program: str | None
    wanted_bytes: int
    free_bytes: int
    is_reservation: bool
    is_fragmentation: bool
    alive: tuple[AliveGroup, ...]
    largest_free_bytes: int
    reservable_bytes: int
    in_the_way: tuple[HeldArray, ...] = ()
    what_ifs: tuple[WhatIf, ...] | None = ()


def find_memory_failures(recording: Recording, lines: LineFinder) -> tuple[MemoryFailure, ...]:
    """The failures in the order in which they happened."""
    rows = np.flatnonzero(recording.events["kind"] == EventKind.FAILURE)
    found = [_failure(recording, int(row), lines) for row in rows]
    if found:
        found[0] = replace(found[0], what_ifs=_what_ifs(recording, int(rows[0]), lines))
    return tuple(found)


def _failure(recording: Recording, row: int, lines: LineFinder) -> MemoryFailure:
    event = recording.events[row]
    device = int(event["device"])
    alive = alive_at(recording, device, row, lines)  # with outputs that the same call had placed
    free = recording.run.hbm_bytes - sum(group.bytes for group in alive)
    names = {p.number: p.name for p in recording.programs}
    wanted = int(event["bytes"])
    limit = recording.run.hbm_bytes
    at_bottom = bool(event["flags"] & EventFlag.RESERVE)
    blocks = recorded_blocks(recording, device, row)
    gaps = gaps_between(blocks, limit)
    walls = in_the_way(blocks, wanted, limit, at_bottom=at_bottom) if wanted <= free else ()
    return MemoryFailure(
        device=device,
        line=lines.line(int(event["stack"])),
        program=names.get(int(event["program"])),
        wanted_bytes=wanted,
        free_bytes=free,
        is_reservation=at_bottom,
        is_fragmentation=wanted <= free,
        alive=alive,
        largest_free_bytes=gaps.largest,
        reservable_bytes=gaps.at_bottom,
        in_the_way=held_arrays(recording, walls, lines),
    )


def _what_ifs(recording: Recording, row: int, lines: LineFinder) -> tuple[WhatIf, ...] | None:
    """What would have helped against the failure at `row`, by replay on the slice's own arena."""
    device = int(recording.events["device"][row])
    requests = requests_of(recording, device).until(row)
    if len(requests) > MOST_UNASKED:
        return None
    run = Context(recording=recording, device=device, requests=requests, event=row, lines=lines)
    return find_what_ifs(run, lambda: Arena(recording.run.hbm_bytes), failed=True)


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
