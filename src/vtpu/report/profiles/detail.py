"""How closely each execution is shown, so that a profile keeps within a number of events.

The first executions are shown operation by operation, with every pass of every loop. Where that would
be too much, fewer passes are shown one by one; where even that, an execution is one event. Times are the
same in all forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: How many passes of a loop are shown one by one, the most first; None is all.
PASSES: tuple[int | None, ...] = (None, 64, 16, 4, 1, 0)


@dataclass(frozen=True, slots=True)
class Detail:
    """How an execution is shown: `passes` of each loop one by one (None: all), or as one event."""

    passes: int | None = None
    is_whole: bool = False


WHOLE = Detail(0, is_whole=True)


def choose_details(
    executions: Sequence[int], sizes: Mapping[int, Sequence[int]], most_events: int
) -> list[Detail]:
    """How to show each execution.

    Args:
        executions: the program of each one, in order.
        sizes: of each program, how many events one execution has with each of `PASSES`.
        most_events: how many there may be in all; more only where executions themselves are more.
    """
    left = most_events - len(executions)
    for_later = sum(_least(sizes.get(program)) for program in executions)
    details: list[Detail] = []
    for program in executions:
        least = _least(sizes.get(program))
        for_later -= least
        detail, taken = _closest(sizes.get(program), max(left - for_later, min(left, least)))
        details.append(detail)
        left -= taken
    return details


def _least(sizes: Sequence[int] | None) -> int:
    """Events of an execution in its shortest form that still has every operation."""
    return max(sizes[-1] - 1, 0) if sizes else 0


def _closest(sizes: Sequence[int] | None, room: int) -> tuple[Detail, int]:
    """The closest form that adds no more than `room` events to the one that each execution is."""
    if not sizes:
        return WHOLE, 0
    for passes, size in zip(PASSES, sizes, strict=True):
        if size - 1 <= room:
            return Detail(passes), max(size - 1, 0)
    return WHOLE, 0
