"""Which arrays die after a program took them: those could have been donated to it.

A recording does not say which arrays an execution took. What it says is what was alive when it began, what
was freed afterwards, and when the next program began that takes arrays of the same shape. Arrays that were
freed before that, and not read by the host meanwhile, nothing can have needed any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

import numpy as np

from vtpu.analysis.replay.addresses import alive_rows
from vtpu.analysis.run.memory import programs_on, shape_text
from vtpu.recording.events import EventFlag, EventKind, MemoryKind, memory_kinds
from vtpu.recording.recording import ProgramRecord, Recording

_MOST_CALLS = 32  # enough to tell, and runs may have millions


@dataclass(frozen=True, slots=True)
class Released:
    """Arrays of one shape: how many are alive when a typical call begins, how many of these die after it."""

    alive: int
    died: int


class _Event(NamedTuple):
    """The columns that matter here, under their names."""

    kind: int
    subject: int
    program: int
    detail: int
    flags: int


@dataclass(slots=True)
class _Call:
    """The shapes of what was alive when a call began, by buffer, and what of it died in time."""

    alive: Mapping[int, str]
    closed: set[str] = field(default_factory=set[str])
    needed: set[int] = field(default_factory=set[int])
    died: Counter[str] = field(default_factory=Counter[str])

    def free(self, buffer: int) -> None:
        shape = self.alive.get(buffer, "")
        if shape and shape not in self.closed and buffer not in self.needed:
            self.died[shape] += 1


def released_after(recording: Recording, programs: Iterable[int], device: int) -> Mapping[str, Released] | None:  # fmt: skip
    """What dies after the calls of a program, by shape as `shape_text` has it.

    `programs`: its numbers, where it was compiled more than once. None where it was called less than
    twice on `device`: after the last call everything dies.
    """
    own = set(programs)
    calls = _calls(recording, own, device)
    if not calls:
        return None
    shapes = {shape for call in calls for shape in call.died}
    alive = [Counter(call.alive.values()) for call in calls]
    return {
        shape: Released(
            median_low(counts[shape] for counts in alive),
            median_low(call.died[shape] for call in calls),
        )
        for shape in shapes
    }


def _calls(recording: Recording, own: set[int], device: int) -> list[_Call]:
    """The calls but the last, up to the first few."""
    rows = _rows(recording, device)
    here = recording.events[rows]
    is_call = (here["kind"] == EventKind.EXECUTE) & np.isin(here["program"], list(own))
    at = np.flatnonzero(is_call)[: _MOST_CALLS + 1]
    if len(at) < 2:
        return []
    looked_at = here[at[0] : at[-1] + 1]
    events = [_Event(*fields) for fields in looked_at[list(_Event._fields)].tolist()]
    begins = (at - at[0]).tolist()
    taken = {p.number: _taken(p) for p in recording.programs}
    alive = _Alive(recording, device, int(rows[at[0]]))
    found: list[_Call] = []
    for begin, end in pairwise(begins):
        call = _Call(dict(alive.buffers))
        for event in events[begin + 1 : end]:
            alive.follow(event)
            _follow(call, event, taken)
        found.append(call)
    return found


def _rows(recording: Recording, device: int) -> np.ndarray:
    """The events of a device that say what lives, is read or runs."""
    events = recording.events
    kinds = events["kind"]
    in_hbm = memory_kinds(events) == MemoryKind.DEVICE
    about = np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE, EventKind.DEVICE_TO_HOST))
    ran = (kinds == EventKind.EXECUTE) & (events["flags"] & EventFlag.FAILED == 0)
    here = about & in_hbm & (events["device"] == device)
    return np.flatnonzero(here | (ran & programs_on(recording, device, events)))


def _taken(program: ProgramRecord) -> set[str]:
    return {text.partition("{")[0] for text in program.parameter_shapes}


def _follow(call: _Call, event: _Event, taken: Mapping[int, set[str]]) -> None:
    if event.kind == EventKind.EXECUTE:
        call.closed |= taken.get(event.program, set())
    elif event.kind == EventKind.DEVICE_TO_HOST:
        call.needed.add(event.subject)
    elif event.kind == EventKind.FREE and not event.flags & EventFlag.ALIASED:
        call.free(event.subject)


class _Alive:
    """The shapes of what is alive on a device, by buffer."""

    def __init__(self, recording: Recording, device: int, row: int) -> None:
        self._recording = recording
        before = recording.events[alive_rows(recording, device, row)]
        self.buffers: dict[int, str] = {}
        for fields in before[list(_Event._fields)].tolist():
            self.follow(_Event(*fields))

    def follow(self, event: _Event) -> None:
        if event.kind == EventKind.ALLOCATE:
            self.buffers[event.subject] = shape_text(self._recording, event.detail)
        elif event.kind == EventKind.FREE:
            self.buffers.pop(event.subject, None)
