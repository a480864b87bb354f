"""The loop of a run: what happens in which step, and what a line does there again and again.

A step goes from where its program is dispatched to where it is dispatched next (`step_time`). So what
stands before the call in the text of the loop belongs to the step before, which is the same in a loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.step_time import Steps
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import Recording


@dataclass(frozen=True, eq=False)
class Loop:
    """`begins` are the places among the events at which steps were dispatched."""

    begins: np.ndarray

    @property
    def count(self) -> int:
        """Whole steps: the last one has no end."""
        return max(0, len(self.begins) - 1)

    def steps_of(self, events: np.ndarray) -> np.ndarray:
        """The step of events at some places, from 0; -1: they are in none."""
        step = np.searchsorted(self.begins, events, side="right") - 1
        return np.where(step < self.count, step, -1)


def loop_of(recording: Recording, steps: Steps) -> Loop:
    """The loop that the steps of a run make."""
    events = recording.events
    is_step = (events["kind"] == EventKind.EXECUTE) & (events["program"] == steps.program)
    is_step &= (events["device"] < 0) | (events["device"] == steps.device)
    is_step &= events["flags"] & EventFlag.FAILED == 0
    return Loop(np.flatnonzero(is_step))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """What one line does in the loop.

    `events` are their places, those outside of the loop too. In `steps` steps out of `of_steps` there is
    one at least, and in the loop `in_loop` of `bytes` in all.
    """

    line: SourceLine
    events: np.ndarray
    steps: int
    of_steps: int
    in_loop: int
    bytes: int

    @property
    def per_step(self) -> float:
        """How many there are in a step, on average."""
        return self.in_loop / self.of_steps

    @property
    def bytes_per_step(self) -> float:
        """How many bytes they move in a step, on average."""
        return self.bytes / self.of_steps

    @property
    def share(self) -> float:
        """The part of the steps in which there is one."""
        return self.steps / self.of_steps


def repeated(
    recording: Recording, lines: LineFinder, loop: Loop, events: np.ndarray
) -> list[Repeated]:
    """Events at some places by the user's line, of those that are in the loop; most bytes first."""
    by_line: dict[SourceLine, list[np.ndarray]] = defaultdict(list)
    stacks = recording.events["stack"][events]
    for stack in np.unique(stacks).tolist():
        by_line[lines.line(stack)].append(events[stacks == stack])
    found = [_summarize(recording, line, loop, np.sort(np.concatenate(some))) for line, some in by_line.items()]  # fmt: skip
    return sorted((r for r in found if r.steps), key=lambda r: (-r.bytes, -r.in_loop, r.line))


def _summarize(recording: Recording, line: SourceLine, loop: Loop, events: np.ndarray) -> Repeated:
    steps = loop.steps_of(events)
    inside = events[steps >= 0]
    return Repeated(
        line=line,
        events=events,
        steps=len(np.unique(steps[steps >= 0])),
        of_steps=loop.count,
        in_loop=len(inside),
        bytes=int(recording.events["bytes"][inside].sum()),
    )
