"""Every time that an execution comes to an instruction: the passes of loops one after the other.

A loop of a million passes would make a million times as many events. Of each loop a number of passes is
shown as they are; those left over are shown as one pass that lasts as long as all of them, so that
nothing is lost and the times of every operation still add up. How many passes an event stands for is
part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtpu.analysis.timeline.beside import Beside
from vtpu.clock.program_time import Lane, Pass, ProgramTime, Span

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """What happens in one execution, or in one pass of a computation: columns, seconds from its begin.

    `passes` is how many passes each one stands for, which a model may not know as a whole number;
    `is_async` says that it runs beside the core.
    """

    instruction: Ints
    start: Floats
    end: Floats
    passes: Floats
    is_async: NDArray[np.bool_]

    def __len__(self) -> int:
        """How many."""
        return len(self.instruction)

    def select(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Occurrences:
        """Some of them."""
        return Occurrences(
            self.instruction[which],
            self.start[which],
            self.end[which],
            self.passes[which],
            self.is_async[which],
        )


def count_events(time: ProgramTime, most_passes: int | None) -> int:
    """At most how many events `expand` gives, without making them."""
    known: dict[int, int] = {}

    def of(computation: int) -> int:
        if computation not in known:
            found = time.passes.get(computation)
            known[computation] = _count(found, most_passes, of) if found else 0
        return known[computation]

    return of(time.entry)


def _count(found: Pass, most_passes: int | None, of: Callable[[int], int]) -> int:
    total = len(found.spans) + sum(span.waited > 0 for span in found.spans)
    for span in found.spans:
        if span.instruction in found.inner:
            computation, seconds = found.inner[span.instruction]
            shown, left = _split(_passes_in(span, seconds), most_passes)
            total += of(computation) * (shown + (left > 0))
    return total


def _passes_in(span: Span, seconds: float) -> float:
    """How many passes of so many seconds an instruction makes."""
    count = (span.end - span.start) / seconds if seconds > 0 else 0.0
    return round(count) if abs(count - round(count)) < 1e-6 * max(count, 1) else count


def expand(
    time: ProgramTime, most_passes: int | None = None, beside: Beside | None = None
) -> Occurrences:
    """What one execution does, in the order of its begin, an outer operation before those in it.

    What takes another lane than the core and is not in flight keeps the core waiting: it stands on the
    core. The end of what is in flight is waited for by the instruction that `beside` names.

    Args:
        time: the program's modelled time.
        most_passes: how many passes of a loop are shown one by one; None shows all.
        beside: what runs beside the core; by default all that takes another lane.
    """
    found = _Expansion(time, most_passes, beside).pass_of(time.entry)
    return found.select(np.lexsort((-found.end, found.start)))


def _split(count: float, most_passes: int | None) -> tuple[int, float]:
    """Passes that are shown one by one, and those left over: a part of one is never shown as one."""
    shown = int(count) if most_passes is None else min(int(count), most_passes)
    return shown, count - shown


class _Expansion:
    """Passes of computations; the same one comes again in every pass of a loop."""

    def __init__(self, time: ProgramTime, most_passes: int | None, beside: Beside | None) -> None:
        self._time = time
        self._most_passes = most_passes
        self._beside = beside
        self._known: dict[int, Occurrences] = {}

    def pass_of(self, computation: int) -> Occurrences:
        """One pass through a computation."""
        if computation not in self._known:
            found = self._time.passes.get(computation)
            self._known[computation] = self._expand(found) if found else _NOTHING
        return self._known[computation]

    def _expand(self, found: Pass) -> Occurrences:
        beside = [span for span in found.spans if self._is_beside(span)]
        core = [span for span in found.spans if not self._is_beside(span)]
        parts = [_spans(beside, is_async=True), _spans(self._waited(core, beside), is_async=False)]
        for span in found.spans:
            if span.instruction in found.inner:
                parts += self._passes(span, *found.inner[span.instruction])
        return _joined(parts)

    def _is_beside(self, span: Span) -> bool:
        if span.lane is Lane.CORE:
            return False
        return self._beside is None or span.instruction in self._beside.starts

    def _waited(self, core: list[Span], beside: list[Span]) -> list[Span]:
        """What the core does, with what it waits at the end of what is in flight.

        An instruction that computes and then waits is one event.
        """
        done_of = self._beside.done_of if self._beside else {}
        waits = {
            done_of[span.instruction]: Span(
                done_of[span.instruction], Lane.CORE, span.end - span.waited, span.end
            )
            for span in beside
            if span.waited > 0 and span.instruction in done_of
        }
        own = [
            Span(s.instruction, s.lane, s.start, max(s.end, waits.pop(s.instruction, s).end))
            for s in core
        ]
        return [*own, *waits.values()]

    def _passes(self, span: Span, computation: int, seconds: float) -> list[Occurrences]:
        """The passes that an instruction makes, within its own time."""
        one = self.pass_of(computation)
        shown, left = _split(_passes_in(span, seconds), self._most_passes)
        parts = [_repeated(one, span.start, shown, seconds)] if shown else []
        if left > 0:
            parts.append(_stretched(one, span.start + shown * seconds, left))
        return [_within(part, span.end) for part in parts]


def _spans(spans: Sequence[Span], *, is_async: bool) -> Occurrences:
    count = len(spans)
    return Occurrences(
        np.fromiter((s.instruction for s in spans), np.int64, count),
        np.fromiter((s.start for s in spans), np.float64, count),
        np.fromiter((s.end for s in spans), np.float64, count),
        np.ones(count),
        np.full(count, is_async),
    )


def _repeated(one: Occurrences, start: float, count: int, seconds: float) -> Occurrences:
    """A pass `count` times, one after the other."""
    begins = np.repeat(start + np.arange(count) * seconds, len(one))
    return Occurrences(
        np.tile(one.instruction, count),
        begins + np.tile(one.start, count),
        begins + np.tile(one.end, count),
        np.tile(one.passes, count),
        np.tile(one.is_async, count),
    )


def _stretched(one: Occurrences, start: float, count: float) -> Occurrences:
    """A pass that stands for `count` of them and lasts as long."""
    return Occurrences(
        one.instruction,
        start + one.start * count,
        start + one.end * count,
        one.passes * count,
        one.is_async,
    )


def _within(part: Occurrences, end: float) -> Occurrences:
    """Nothing on the core ends after what it is part of, by no rounding either."""
    limit = np.where(part.is_async, np.inf, end)
    return Occurrences(
        part.instruction,
        np.minimum(part.start, limit),
        np.minimum(part.end, limit),
        part.passes,
        part.is_async,
    )


def _joined(parts: list[Occurrences]) -> Occurrences:
    return Occurrences(
        np.concatenate([p.instruction for p in parts]),
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.end for p in parts]),
        np.concatenate([p.passes for p in parts]),
        np.concatenate([p.is_async for p in parts]),
    )


_NOTHING = _spans((), is_async=False)
