"""What an operation takes by itself: its time without that of the operations in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def self_times(start: Ints, end: Ints) -> Ints:
    """The time of each event without that of events in it, in the events' order.

    Events in which others stand (loops, calls) stand before them when both begin at once. What begins
    in one event and ends after it is beside that, not in it.
    """
    order = np.lexsort((-end, start))
    own = (end - start).tolist()
    outer: list[tuple[int, int]] = []  # (end, row) of what is under way, the innermost last
    starts, ends = start.tolist(), end.tolist()
    for row in order.tolist():
        while outer and outer[-1][0] <= starts[row]:
            outer.pop()
        if outer and ends[row] <= outer[-1][0]:
            own[outer[-1][1]] -= ends[row] - starts[row]
        if ends[row] > starts[row]:
            outer.append((ends[row], row))
    return np.array(own, np.int64)


def covered(start: Ints, end: Ints) -> int:
    """How long at least one of some events was under way."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    begins, reached = start[order], np.maximum.accumulate(end[order])
    free = np.maximum(begins[1:] - reached[:-1], 0).sum()
    return int(reached[-1] - begins[0] - free)
