"""How small a heap can be at all, and what of a packed heap is free at one moment.

Three bounds, each the largest sum over the groups that hold memory at one tick:

* `live_bound`: a group counts while any member is alive. No packing is smaller, whatever the alignment.
* `aligned_bound`: the same with starts aligned: all blocks but the topmost also take the bytes up to the
  next aligned address. No packing with this alignment is smaller. Compare a heap with this one.
* `block_bound`: a group counts from its first tick to its last, as FAST_MERGE keeps it. Packers that
  use the ticks between the lives of members (SPATIAL) can be smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from vtpu.hbm.packing.problem import Group, Packing, Trace, lives, round_up


@dataclass(frozen=True, slots=True)
class Bound:
    """A heap of fewer than `size` bytes cannot be: `tick` is the first that needs so much."""

    size: int
    tick: int | None  # None where nothing is ever alive


@dataclass(frozen=True, slots=True)
class Gap:
    """Free addresses between blocks, or above the topmost one and below the heap's top."""

    offset: int
    size: int


def live_bound(trace: Trace) -> Bound:
    """The largest sum of live group sizes, in bytes."""
    return _largest(_lives(trace), 1)


def aligned_bound(trace: Trace) -> Bound:
    """What live groups need with aligned starts and one unaligned end, in bytes."""
    return _largest(_lives(trace), trace.alignment)


def block_bound(trace: Trace) -> Bound:
    """The live-bytes bound where each group keeps its memory from its first tick to its last."""
    return _largest([(g.start, g.end, g.size) for g in trace.groups], 1)


def live_bytes(trace: Trace) -> list[int]:
    """For each tick the sum of the sizes of the groups that are alive."""
    change = [0] * (len(trace.events) + 1)
    for first, last, size in _lives(trace):
        change[first] += size
        change[last + 1] -= size
    return list(accumulate(change[:-1]))


def tops(trace: Trace, packing: Packing) -> list[int]:
    """For each tick the end of the topmost block that is in use, in bytes from the heap's start."""
    curve = [0] * len(trace.events)
    highest = _Running()
    arrivals = _by_start(_lives(trace, lambda g: packing.offsets[g.owner.buffer] + g.size))
    for tick in range(len(curve)):
        for end, top in arrivals.get(tick, ()):
            highest.add(top, end)
        curve[tick] = highest.at(tick)
    return curve


def gaps(trace: Trace, packing: Packing, tick: int) -> tuple[Gap, ...]:
    """The free address ranges of the heap at `tick`, from low to high.

    Their sizes and those of the live groups sum up to `packing.heap_size`.
    """
    blocks = sorted((packing.offsets[g.owner.buffer], g.size) for g in _alive(trace, tick))
    found: list[Gap] = []
    top = 0
    for offset, size in [*blocks, (packing.heap_size, 0)]:
        if offset > top:
            found.append(Gap(top, offset - top))
        top = max(top, offset + size)
    return tuple(found)


def _alive(trace: Trace, tick: int) -> Iterator[Group]:
    for group in trace.groups:
        if any(first <= tick <= last for first, last in lives(group)):
            yield group


def _lives(
    trace: Trace, figure: Callable[[Group], int] = lambda group: group.size
) -> list[tuple[int, int, int]]:
    return [(*life, figure(group)) for group in trace.groups for life in lives(group)]


def _largest(spans: list[tuple[int, int, int]], alignment: int) -> Bound:
    """The largest need of spans (first tick, last tick, size). Needs rise only where a span begins."""
    ending: list[tuple[int, int]] = []
    slack, total, found = _Running(), 0, Bound(0, None)
    for start, end, size in sorted(spans):
        while ending and ending[0][0] < start:
            total -= heappop(ending)[1]
        padded = round_up(size, alignment)
        total += padded
        heappush(ending, (end, padded))
        slack.add(padded - size, end)
        if (need := total - slack.at(start)) > found.size:
            found = Bound(need, start)
    return found


def _by_start(spans: Iterable[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    arrivals: dict[int, list[tuple[int, int]]] = {}
    for start, end, figure in spans:
        arrivals.setdefault(start, []).append((end, figure))
    return arrivals


class _Running:
    """The largest figure that has not ended; 0 without any."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def add(self, figure: int, end: int) -> None:
        heappush(self._heap, (-figure, end))

    def at(self, tick: int) -> int:
        while self._heap and self._heap[0][1] < tick:
            heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0
