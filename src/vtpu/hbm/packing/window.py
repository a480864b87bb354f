"""The part of a program that makes its heap as large as it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vtpu.hbm.packing.bounds import aligned_bound, live_bytes, tops
from vtpu.hbm.packing.problem import (
    Event,
    Group,
    Interval,
    Kind,
    Packing,
    Trace,
    lives,
)

TIGHT_SHARE = 0.9  # a choice: wider windows prove more and take longer


@dataclass(frozen=True, slots=True)
class Window:
    """The ticks `first` to `last` of a trace, to be packed by themselves.

    Whatever packs the whole trace packs its window too, so no packing of the whole is smaller than the
    smallest of the window. The reverse does not hold: the rest may not fit around it.
    """

    trace: (
        Trace  # what is alive at `first` is allocated up front; what outlives `last` is not freed
    )
    first: int | None  # ticks of the whole trace; None without events
    last: int | None
    left_out: int  # groups that come or go in the window but are too small to be kept


def peak_window(trace: Trace, packing: Packing, at_most: int = 100) -> Window:
    """The ticks in which memory is tight, and the groups alive in them.

    That is where `packing` reaches above the lower bound, for only there has another one something to
    win, and where nine tenths of the bound are alive, for there little can be moved. All groups that are alive throughout are kept, of the
    others the `at_most` largest.
    """
    ticks = _tight_ticks(trace, packing)
    if not ticks:
        return Window(replace(trace, events=()), None, None, 0)
    first, last = ticks[0], ticks[-1]
    there = [g for g in trace.groups if g.size and _meets(g, ticks)]
    passing = [g for g in there if not any(s <= first and e >= last for s, e in lives(g))]
    passing.sort(key=lambda g: (-g.size, g.start))
    small = {g.owner.buffer for g in passing[at_most:]}
    kept = [g for g in there if g.owner.buffer not in small]
    return Window(_clipped(trace, kept, first, last), first, last, len(small))


def _tight_ticks(trace: Trace, packing: Packing) -> list[int]:
    bound = aligned_bound(trace)
    curves = zip(tops(trace, packing), live_bytes(trace), strict=True)
    return [
        tick
        for tick, (top, live) in enumerate(curves)
        if top > bound.size or tick == bound.tick or (live and live >= TIGHT_SHARE * bound.size)
    ]


def _meets(group: Group, ticks: list[int]) -> bool:
    """Whether `group` is alive at one of `ticks`, which are sorted."""
    return any(
        (at := bisect_left(ticks, first)) < len(ticks) and ticks[at] <= last
        for first, last in lives(group)
    )


def _clipped(trace: Trace, kept: list[Group], first: int, last: int) -> Trace:
    """The events of `kept` from `first` to `last`."""
    inside = [(m, g) for g in kept for m in g.members if m.start <= last and m.end >= first]
    births = {m.buffer: _birth(m, g) for m, g in inside}
    passed = [e for g in kept if g.owner.end < first for e in _passed(g)]
    alive = [births[m.buffer] for m, _ in inside if m.start < first]
    during = [
        e if e.kind is Kind.FREE else births[e.buffer]
        for e in trace.events[first : last + 1]
        if e.buffer in births
    ]
    return replace(trace, events=(*passed, *alive, *during))


def _passed(group: Group) -> Iterator[Event]:
    """An owner that is dead already, for the members that share with it."""
    yield Event.allocate(group.owner.buffer, group.size)
    yield Event.free(group.owner.buffer)


def _birth(member: Interval, group: Group) -> Event:
    """How `member` begins. It shares with the owner, since those between may be gone."""
    owner = group.owner.buffer
    if member.buffer == owner:
        return Event.allocate(owner, group.size)
    return Event.share(member.buffer, member.size, owner)
