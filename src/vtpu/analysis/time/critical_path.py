"""The chain of operations that makes a step as long as it is.

It is followed from the end backwards: from an operation of the core to the one before it; from a wait to
what was waited for, and from there to what that waited for in its turn: another transfer on the same
lane, or the core that started it. What the core computed meanwhile is not on it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from vtpu.analysis.time.accounting import Timelines
from vtpu.analysis.time.timeline import CLOSE, Kind, Segment, repetitions
from vtpu.clock.program_time import Pass, ProgramTime, Span


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Seconds on the path, all runs together: of operations of the core and of what ran beside it.

    With `idle_s` they sum to the length of the step.
    """

    core: dict[int, float]
    beside: dict[int, float]
    idle_s: float


def critical_path_of(time: ProgramTime, timelines: Timelines) -> CriticalPath:
    """The critical path of a step."""
    walk = _Walk(time, timelines)
    walk.through(time.entry, 1.0)
    return CriticalPath(dict(walk.core), dict(walk.beside), walk.idle_s)


class _Walk:
    """Goes backwards through passes, those of loops as often as they run."""

    def __init__(self, time: ProgramTime, timelines: Timelines) -> None:
        self._time = time
        self._timelines = timelines
        self.core: defaultdict[int, float] = defaultdict(float)
        self.beside: defaultdict[int, float] = defaultdict(float)
        self.idle_s = 0.0

    def through(self, computation: int, times: float) -> None:
        """Adds the path through a pass that runs `times` times."""
        one = self._time.passes[computation]
        timeline = self._timelines.of(computation)
        spans = {s.instruction: s for s in one.spans}
        until = one.seconds
        for segment in reversed(timeline.segments):
            end = min(segment.end, until)
            if end <= segment.begin + CLOSE:
                continue  # it ran beside what is on the path
            if segment.kind is Kind.WAIT:
                until = self._waited(segment, end, spans, timeline.queued, times)
            else:
                self._on_core(one, segment, times * (end - segment.begin))
                until = segment.begin

    def _on_core(self, one: Pass, segment: Segment, seconds: float) -> None:
        if segment.kind is Kind.IDLE:
            self.idle_s += seconds
            return
        if segment.kind is Kind.CALL and segment.seconds:
            called, repeated = repetitions(one, segment)
            times = repeated * seconds / segment.seconds
            self.through(called, times)
            seconds -= times * self._time.passes[called].seconds
        self.core[segment.instruction] += seconds

    def _waited(
        self,
        segment: Segment,
        end: float,
        spans: dict[int, Span],
        queued: dict[int, int],
        times: float,
    ) -> float:
        """Adds what a wait was for, and what that waited for; gives the instant when all of it began."""
        chain = [segment.instruction]
        while (before := queued.get(chain[-1])) is not None:
            chain.append(before)
        for number in chain:
            begin = spans[number].start
            self.beside[number] += times * (end - begin)
            end = begin
        if end > segment.begin:  # for a lane that something in another computation held
            self.beside[chain[-1]] += times * (end - segment.begin)
        return min(end, segment.begin)
