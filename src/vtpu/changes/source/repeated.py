"""What happens again and again in a run, and the user's loop that does it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import SourceLine
from vtpu.changes.source.loops import Loop, loops_around, statement_on
from vtpu.findings.subjects import RunSubject
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds, of_kind

_LEAST = 3  # what happens twice may be the first time and another one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """Events that one statement in a loop makes.

    `statement` stands in `loop`. `line` is where it happens: in the statement, or, with
    `is_direct` false, in a function that it calls. `bytes` are those of all, `largest_bytes` of one.
    """

    file: SourceFile
    statement: ast.stmt
    loop: Loop
    line: SourceLine
    is_direct: bool
    count: int
    bytes: int
    largest_bytes: int


def repeated(run: RunSubject, kind: EventKind) -> list[Repeated]:
    """The transfers of a kind from or to devices' memory that loops make, most frequent first."""
    events = of_kind(run.recording.events, kind)
    if kind in (EventKind.HOST_TO_DEVICE, EventKind.DEVICE_TO_HOST):
        events = events[memory_kinds(events) == MemoryKind.DEVICE]
    found: dict[tuple[int, SourceLine], Repeated] = {}
    for stack in np.unique(events["stack"]).tolist():
        one = _place(run, run.lines.frames(stack), events[events["stack"] == stack])
        if one is not None:
            key = (id(one.statement), one.line)
            found[key] = _joined(found[key], one) if key in found else one
    often = [one for one in found.values() if one.count >= _LEAST]
    return sorted(often, key=lambda one: (-one.count, one.line))


def _place(run: RunSubject, lines: Iterable[SourceLine], events: np.ndarray) -> Repeated | None:
    """The innermost statement on a stack that stands in a loop."""
    every = list(lines)
    for line in every:
        file = run.files.get(line.file)
        statement = statement_on(file, line.line) if file else None
        around = loops_around(file, statement) if file and statement else []
        if file and statement and around:
            return Repeated(
                file=file,
                statement=statement,
                loop=around[0],
                line=every[0],
                is_direct=line == every[0],
                count=len(events),
                bytes=int(events["bytes"].sum()),
                largest_bytes=int(events["bytes"].max()),
            )
    return None


def _joined(one: Repeated, other: Repeated) -> Repeated:
    return Repeated(
        file=one.file,
        statement=one.statement,
        loop=one.loop,
        line=one.line,
        is_direct=one.is_direct,
        count=one.count + other.count,
        bytes=one.bytes + other.bytes,
        largest_bytes=max(one.largest_bytes, other.largest_bytes),
    )
