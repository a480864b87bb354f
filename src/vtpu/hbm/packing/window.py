"""The part of a program that makes its heap as large as it is."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from vtpu.hbm.packing.bounds import aligned_bound, tops
from vtpu.hbm.packing.problem import Group, Packing, Trace, groups, lives


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a trace that can be packed by itself.

    Whatever packs the whole trace packs its window too, so no packing of the whole is smaller than the
    smallest of the window. The reverse does not hold: the rest may not fit around it.
    """

    trace: Trace  # events of the window's groups; ticks are counted anew
    first: int | None  # first and last tick of the whole trace that the window is about
    last: int | None
    left_out: int  # groups that are alive there too but too small to be kept


def peak_window(trace: Trace, packing: Packing, at_most: int = 300) -> Window:
    """The groups alive at the ticks in which `packing` reaches above the lower bound.

    Only there has an other packing something to win. The tick of the bound itself belongs to it, so
    that the window's bound is that of the whole. Of more than `at_most` groups the largest are kept.
    """
    bound = aligned_bound(trace)
    reach = tops(trace, packing)
    ticks = [t for t, top in enumerate(reach) if top > bound.size or t == bound.tick]
    there = [g for g in groups(trace) if g.size and _meets(g, ticks)]
    kept = sorted(there, key=lambda g: (-g.size, g.start))[:at_most]
    window = trace.only(frozenset(m.buffer for g in kept for m in g.members))
    first, last = (ticks[0], ticks[-1]) if ticks else (None, None)
    return Window(window, first, last, len(there) - len(kept))


def _meets(group: Group, ticks: list[int]) -> bool:
    """Whether `group` is alive at one of `ticks`, which are sorted."""
    return any(
        (at := bisect_left(ticks, first)) < len(ticks) and ticks[at] <= last
        for first, last in lives(group)
    )
