"""What is packed, and the result: events over program order, live ranges, offsets.

Time is counted in ticks, one per event. A buffer is alive from the tick of its allocation to the tick
of its free, both included. Buffers that share form a group: one piece of memory, as large as its
largest member, occupied while any member is alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property


class Kind(Enum):
    """What happens to a buffer."""

    ALLOCATE = auto()
    SHARE = auto()  # a new buffer in the memory of an older one
    FREE = auto()


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a heap trace. `size` is in padded bytes and means nothing for FREE."""

    kind: Kind
    buffer: int
    size: int = 0
    shares: int | None = None

    @staticmethod
    def allocate(buffer: int, size: int) -> Event:
        """`buffer` comes to life in memory of its own."""
        return Event(Kind.ALLOCATE, buffer, size)

    @staticmethod
    def share(buffer: int, size: int, shares: int) -> Event:
        """`buffer` comes to life in the memory of `shares`."""
        return Event(Kind.SHARE, buffer, size, shares)

    @staticmethod
    def free(buffer: int) -> Event:
        """`buffer` is used no more."""
        return Event(Kind.FREE, buffer)


@dataclass(frozen=True)
class Trace:
    """The events of one heap in program order; every offset is a multiple of `alignment` bytes.

    Raises:
        ValueError: The events contradict each other: a buffer comes to life twice, is freed before
            it lives or twice, shares with an unknown one, or has a negative size.
    """

    events: tuple[Event, ...]
    alignment: int = 1

    def __post_init__(self) -> None:
        if self.alignment < 1:
            raise ValueError(f"a heap's alignment is at least 1 byte, not {self.alignment}")
        known, alive = set[int](), set[int]()
        for tick, event in enumerate(self.events):
            if fault := _fault(event, known, alive):
                raise ValueError(f"heap trace, event {tick}: buffer {event.buffer} {fault}")
            if event.kind is Kind.FREE:
                alive.remove(event.buffer)
            else:
                known.add(event.buffer)
                alive.add(event.buffer)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups by start; a buffer that shares with none is a group of one."""
        members: dict[int, list[Interval]] = {}
        for interval in intervals(self):
            members.setdefault(interval.group, []).append(interval)
        return tuple(_group(tuple(found)) for found in members.values())

    def only(self, buffers: frozenset[int]) -> Trace:
        """The events of `buffers` alone. Whoever keeps a buffer keeps the one that it shares with."""
        return replace(self, events=tuple(e for e in self.events if e.buffer in buffers))


def _fault(event: Event, known: set[int], alive: set[int]) -> str | None:
    if event.kind is Kind.FREE:
        return None if event.buffer in alive else "is freed but not alive"
    if event.buffer in known:
        return "comes to life a second time"
    if event.size < 0:
        return f"has a size of {event.size} bytes"
    if event.kind is Kind.SHARE and event.shares not in known:
        return f"shares with buffer {event.shares}, which was never allocated"
    return None


@dataclass(frozen=True, slots=True)
class Interval:
    """The life of a buffer. `end` is its last tick; `group` is the buffer that owns the memory."""

    buffer: int
    start: int
    end: int
    size: int
    group: int


@dataclass(frozen=True, slots=True)
class Group:
    """Buffers that share one piece of memory of `size` bytes; `members[0]` owns it."""

    members: tuple[Interval, ...]
    size: int
    start: int
    end: int

    @property
    def owner(self) -> Interval:
        """The member that was allocated; the others share with it, directly or not."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each buffer lies, in bytes from the heap's start, and how large the heap is."""

    offsets: dict[int, int]
    heap_size: int


def intervals(trace: Trace) -> tuple[Interval, ...]:
    """The lives of the buffers of `trace`, by start. One that is never freed lives to the last tick."""
    last = len(trace.events) - 1
    ends = {e.buffer: tick for tick, e in enumerate(trace.events) if e.kind is Kind.FREE}
    owners: dict[int, int] = {}
    found: list[Interval] = []
    for tick, event in enumerate(trace.events):
        if event.kind is Kind.FREE:
            continue
        buffer = event.buffer
        owners[buffer] = buffer if event.shares is None else owners[event.shares]
        end = ends.get(buffer, last)
        found.append(Interval(buffer, tick, end, event.size, owners[buffer]))
    return tuple(found)


def _group(members: tuple[Interval, ...]) -> Group:
    size, end = max(m.size for m in members), max(m.end for m in members)
    return Group(members, size, members[0].start, end)


def lives(group: Group) -> tuple[tuple[int, int], ...]:
    """The spans of ticks, ends included, in which any member of `group` is alive, joined."""
    spans = [(group.start, group.owner.end)]
    for member in group.members[1:]:
        first, last = spans[-1]
        if member.start <= last + 1:
            spans[-1] = first, max(last, member.end)
        else:
            spans.append((member.start, member.end))
    return tuple(spans)


def placed(found: tuple[Group, ...], offsets: dict[int, int]) -> Packing:
    """The packing in which each group lies at its owner's offset."""
    everywhere = {m.buffer: offsets[m.group] for group in found for m in group.members}
    heap_size = max((offsets[g.owner.buffer] + g.size for g in found), default=0)
    return Packing(everywhere, heap_size)


def round_up(size: int, alignment: int) -> int:
    """`size` or the next multiple of `alignment`."""
    return -(-size // alignment) * alignment
