"""A step's time shared out to its instructions, nothing twice and nothing left over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from vtpu.analysis.time.timeline import Kind, Timeline, repetitions, timeline_of
from vtpu.clock.program_time import ProgramTime
from vtpu.program.modules import Module


@dataclass(frozen=True, slots=True)
class Account:
    """Seconds of one execution, all runs together, by instruction: on the core, and waited for.

    With `idle_s`, in which the core has nothing to do, they sum to `total_s`.
    """

    total_s: float
    core: dict[int, float] = field(default_factory=dict[int, float])
    waits: dict[int, float] = field(default_factory=dict[int, float])
    idle_s: float = 0.0


class Timelines:
    """The timelines of a program's passes, each cut once."""

    def __init__(self, module: Module, time: ProgramTime) -> None:
        self._module = module
        self._time = time
        self._known: dict[int, Timeline] = {}

    def of(self, computation: int) -> Timeline:
        """The timeline of one pass through a computation."""
        if computation not in self._known:
            one = self._time.passes[computation]
            self._known[computation] = timeline_of(self._module, one)
        return self._known[computation]


def account_of(time: ProgramTime, timelines: Timelines) -> Account:
    """What each instruction takes of the step. What a loop's condition takes is the loop's own."""
    core: dict[int, float] = {}
    waits: dict[int, float] = {}
    for computation, times in _visits(time, timelines, time.entry, 1.0):
        one = time.passes[computation]
        for segment in timelines.of(computation).segments:
            seconds = times * segment.seconds
            if segment.kind is Kind.CALL:
                called, repeated = repetitions(one, segment)
                seconds -= times * repeated * time.passes[called].seconds
            if segment.kind in (Kind.COMPUTE, Kind.CALL):
                core[segment.instruction] = core.get(segment.instruction, 0.0) + seconds
            elif segment.kind is Kind.WAIT:
                waits[segment.instruction] = waits.get(segment.instruction, 0.0) + seconds
    idle = time.total.seconds - sum(core.values()) - sum(waits.values())
    return Account(time.total.seconds, core, waits, idle)


def _visits(
    time: ProgramTime, timelines: Timelines, computation: int, times: float
) -> Iterator[tuple[int, float]]:
    """The computations that the step passes through, and how often, once for each place of call."""
    yield computation, times
    one = time.passes[computation]
    for segment in timelines.of(computation).segments:
        if segment.kind is Kind.CALL:
            called, repeated = repetitions(one, segment)
            yield from _visits(time, timelines, called, times * repeated)
