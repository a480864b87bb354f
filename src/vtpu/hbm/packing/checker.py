"""An independent proof that a packing is legal.

Walks the events once and keeps the blocks in use sorted by address; it shares nothing with the packers
but the values that it reads, so that a mistake of theirs is not repeated here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from vtpu.hbm.packing.problem import Event, Kind, Packing, Trace


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a packing breaks. `tick` is None for what is wrong at any time."""

    buffer: int
    tick: int | None
    what: str


def violations(trace: Trace, packing: Packing) -> tuple[Violation, ...]:
    """What makes `packing` illegal; nothing is the proof that it is legal.

    Legal is: each buffer has an offset, not negative and aligned; buffers that share have the same;
    two blocks in use at one tick do not overlap, where a block is as large as the largest buffer that
    shares it; the heap covers every block. Blocks without bytes lie anywhere in the heap.
    """
    walk = _Walk(trace, packing)
    still = [v for event in trace.events if event.kind is not Kind.FREE for v in walk.still(event)]
    if any(event.buffer not in packing.offsets for event in trace.events):
        return tuple(still)
    return (*still, *(v for tick, e in enumerate(trace.events) for v in walk.step(tick, e)))


class _Walk:
    def __init__(self, trace: Trace, packing: Packing) -> None:
        self._alignment = trace.alignment
        self._packing = packing
        self._block: dict[int, int] = {}  # buffer to the buffer whose memory it is in
        self._size: dict[int, int] = {}
        for event in trace.events:
            if event.kind is not Kind.FREE:
                self._know(event)
        self._users: dict[int, set[int]] = {}
        self._in_use: list[tuple[int, int, int]] = []  # offset, top, block

    def _know(self, event: Event) -> None:
        block = event.buffer if event.shares is None else self._block[event.shares]
        self._block[event.buffer] = block
        self._size[block] = max(self._size.get(block, 0), event.size)

    def still(self, event: Event) -> list[Violation]:
        """What is wrong with a buffer's place at any time."""
        buffer, block = event.buffer, self._block[event.buffer]
        offset = self._packing.offsets.get(buffer)
        if offset is None:
            return [Violation(buffer, None, "has no offset")]
        top = offset + self._size[block]
        rules = {
            f"lies at the negative address {offset}": offset < 0,
            f"lies at {offset}, no multiple of {self._alignment}": offset % self._alignment != 0,
            f"ends at {top}, above the heap's {self._packing.heap_size} bytes": (
                top > self._packing.heap_size
            ),
            f"does not lie where buffer {block} does, whose memory it shares": (
                offset != self._packing.offsets.get(block, offset)
            ),
        }
        return [Violation(buffer, None, what) for what, broken in rules.items() if broken]

    def step(self, tick: int, event: Event) -> list[Violation]:
        """The overlaps that begin with `event`."""
        block = self._block[event.buffer]
        users = self._users.setdefault(block, set())
        was_used = bool(users)
        if event.kind is Kind.FREE:
            users.remove(event.buffer)
        else:
            users.add(event.buffer)
        if was_used == bool(users) or not self._size[block]:
            return []
        offset = self._packing.offsets[block]
        entry = (offset, offset + self._size[block], block)
        if not users:
            del self._in_use[bisect_left(self._in_use, entry)]
            return []
        found = [
            Violation(block, tick, f"overlaps buffer {other}, which is in use too")
            for other in self._beside(entry)
        ]
        insort(self._in_use, entry)
        return found

    def _beside(self, entry: tuple[int, int, int]) -> list[int]:
        """The blocks in use next to `entry` that reach into it.

        While no two blocks overlap, only neighbours by address can; the first overlap is thus never
        missed.
        """
        at = bisect_left(self._in_use, entry)
        beside = self._in_use[max(at - 1, 0) : at + 1]
        return [block for first, last, block in beside if first < entry[1] and entry[0] < last]
