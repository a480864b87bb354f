"""When each piece of a program's memory is taken, in program order.

The compiler's heap trace says in which order buffers got and gave back their places. An event names
the instruction that defines its buffer, so the start of a life is exact; its end lies between two
starts, and is put at the last use of the buffer there.

Buffers that share memory (a loop's input, its body's and its result) are one *occupant*: it takes the
bytes of its largest member from the first start to the last end, as XLA's heap simulator counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    HeapEvent,
    HeapEventKind,
    ProgramMemory,
)
from vtpu.program.modules import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """Memory that is taken from instruction `start` to `end` of program order, both included.

    `buffers` share it; the first one is the largest and names it. `offset` counts from the start of
    the allocation. `is_traced`: its life is in a heap trace; that of another temporary is from its
    definition to its last use, and anything else is taken the whole time.
    """

    buffers: tuple[int, ...]
    allocation: int
    kind: AllocationKind
    color: int
    offset: int
    size: int
    start: int
    end: int
    is_traced: bool


@dataclass(slots=True)
class _Life:
    """A group of buffers while its trace is read."""

    buffers: list[int]
    start: int
    end: int
    alive: int = 0


def find_occupants(memory: ProgramMemory) -> tuple[Occupant, ...]:
    """All memory of a program by occupant, in the order of allocations, then of starts.

    The sizes of occupants are no partition of an allocation: the heap reuses places.
    """
    lives = _Lives(memory.module, memory.assignment)
    groups = [g for trace in memory.assignment.traces for g in lives.read(trace.events)]
    by_buffer = {b: group for group in groups for b in group.buffers}
    found: list[Occupant] = []
    for allocation in memory.assignment.allocations:
        if allocation.kind is AllocationKind.TEMP:
            found += end_where_others_begin(_of_heap(allocation, lives, by_buffer))
        else:
            found.append(_whole(allocation, memory.assignment, lives.last))
    return tuple(found)


def end_where_others_begin(occupants: Iterable[Occupant]) -> list[Occupant]:
    """Occupants of one allocation, in the order of their starts, none of which overlap.

    A result that is computed in the place of an operand begins where that ends. Who begins with
    another one in the same place is a part of it.
    """
    kept: list[Occupant] = []
    alive: list[int] = []
    for new in sorted(occupants, key=lambda o: (o.start, -o.size, o.offset)):
        alive = [i for i in alive if kept[i].end >= new.start]
        same = [i for i in alive if _touch(kept[i], new)]
        host = next((i for i in same if kept[i].start == new.start), None)
        if host is not None:
            kept[host] = replace(kept[host], buffers=(*kept[host].buffers, *new.buffers))
            continue
        for i in same:
            kept[i] = replace(kept[i], end=new.start - 1)
        alive.append(len(kept))
        kept.append(new)
    return kept


def _touch(one: Occupant, other: Occupant) -> bool:
    return one.offset < other.offset + other.size and other.offset < one.offset + one.size


class _Lives:
    """Reads heap traces of a module."""

    def __init__(self, module: Module, assignment: BufferAssignment) -> None:
        self.assignment = assignment
        order = module.program_order()
        self.last = max(len(order) - 1, 0)
        self._defined = {i.id: n for n, (_, i) in enumerate(order)}
        self._position = {(c.name, i.name): n for n, (c, i) in enumerate(order)}
        self._uses: dict[int, list[int]] = defaultdict(list)
        for position, (_, instruction) in enumerate(order):
            for operand in instruction.operands:
                self._uses[operand].append(position)

    def read(self, events: tuple[HeapEvent, ...]) -> list[_Life]:
        lives: list[_Life] = []
        group_of: dict[int, _Life] = {}
        starts = self._starts(events)
        following = self._following(events, starts)
        for number, event in enumerate(events):
            if event.kind is HeapEventKind.FREE:
                if group := group_of.get(event.buffer):
                    group.alive -= 1
                    group.end = self._end(event.buffer, starts[number], following[number])
                continue
            shared = group_of.get(event.shares) if event.shares is not None else None
            group = shared or _Life([], starts[number], self.last)
            if not shared:
                lives.append(group)
            group.buffers.append(event.buffer)
            group.alive += 1
            group_of[event.buffer] = group
        for group in lives:
            if group.alive > 0:  # never freed
                group.end = self.last
        return lives

    def untraced(self, buffers: Iterable[int]) -> tuple[int, int]:
        """From the first definition of some buffers to their last use; the whole time if not known."""
        spans = [s for b in buffers if (s := self._span(b)) is not None]
        if not spans:
            return 0, self.last
        return min(start for start, _ in spans), max(end for _, end in spans)

    def _span(self, buffer: int) -> tuple[int, int] | None:
        logical = self.assignment.buffers.get(buffer)
        start = self._defined.get(logical.instruction) if logical else None
        if logical is None or start is None:
            return None
        return start, max([start, *self._uses.get(logical.instruction, ())])

    def _starts(self, events: tuple[HeapEvent, ...]) -> list[int]:
        """The position of each event; of a FREE that of the last event before it that is none."""
        starts: list[int] = []
        now = 0
        for event in events:
            if event.kind is not HeapEventKind.FREE:
                now = max(now, self._position.get((event.computation, event.instruction), now))
            starts.append(now)
        return starts

    def _following(self, events: tuple[HeapEvent, ...], starts: list[int]) -> list[int]:
        """For each event the position of the next one that starts a life; behind the last: the end."""
        following = [self.last + 1] * len(events)
        upcoming = self.last + 1
        for number in range(len(events) - 1, -1, -1):
            following[number] = upcoming
            if events[number].kind is not HeapEventKind.FREE:
                upcoming = starts[number]
        return following

    def _end(self, buffer: int, earliest: int, before: int) -> int:
        """The last use in [earliest, before), or `earliest`."""
        logical = self.assignment.buffers.get(buffer)
        uses = self._uses.get(logical.instruction, ()) if logical else ()
        return max((u for u in uses if earliest <= u < before), default=earliest)


def _of_heap(allocation: Allocation, lives: _Lives, groups: dict[int, _Life]) -> list[Occupant]:
    assignment = lives.assignment
    placed = {p.buffer: p for p in allocation.placed}
    found: list[Occupant] = []
    seen: set[int] = set()
    untraced: dict[int, list[int]] = defaultdict(list)
    for buffer, place in placed.items():
        group = groups.get(buffer)
        if group is None:
            untraced[place.offset].append(buffer)
        elif id(group) not in seen:
            seen.add(id(group))
            members = _largest_first(group.buffers, assignment)
            size = max(placed[b].size for b in members if b in placed)
            found.append(
                _occupant(allocation, members, place.offset, size, group.start, group.end, True)
            )
    for offset, buffers in untraced.items():
        members = _largest_first(buffers, assignment)
        size = max(placed[b].size for b in members)
        start, end = lives.untraced(members)
        found.append(_occupant(allocation, members, offset, size, start, end, False))
    return found


def _whole(allocation: Allocation, assignment: BufferAssignment, last: int) -> Occupant:
    """A parameter, constant or result has its memory as long as the program runs."""
    members = _largest_first((p.buffer for p in allocation.placed), assignment)
    return _occupant(allocation, members, 0, allocation.size, 0, last, False)


def _largest_first(buffers: Iterable[int], assignment: BufferAssignment) -> tuple[int, ...]:
    def size(buffer: int) -> int:
        logical = assignment.buffers.get(buffer)
        return logical.size if logical else 0

    return tuple(sorted(buffers, key=size, reverse=True))


def _occupant(
    allocation: Allocation,
    buffers: tuple[int, ...],
    offset: int,
    size: int,
    start: int,
    end: int,
    is_traced: bool,
) -> Occupant:
    return Occupant(
        buffers=buffers,
        allocation=allocation.index,
        kind=allocation.kind,
        color=allocation.color,
        offset=offset,
        size=size,
        start=start,
        end=end,
        is_traced=is_traced,
    )
