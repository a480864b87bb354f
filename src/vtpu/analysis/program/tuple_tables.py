"""Tuple tables: the pointers of a tuple, each in a slot of its own beside a packed heap."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from vtpu.analysis.program.heap_replay import Heap
from vtpu.program.memory import Placed, ProgramMemory
from vtpu.program.shapes import element_at


@dataclass(frozen=True, slots=True)
class Tables:
    """Tuple tables beside a packed heap: how many, bytes in them, bytes of the slots that they take."""

    count: int
    content_bytes: int
    slot_bytes: int


def find_tables(heap: Heap, memory: ProgramMemory) -> Tables:
    """The tuple tables beside the packed heap; each slot ends where the next thing begins."""
    top = heap.base + heap.packing.heap_size
    beside = {p.offset: p for p in heap.untraced() if not heap.base <= p.offset < top}
    tuples = [p for p in heap.untraced() if p.offset in beside and _is_tuple(p, memory)]
    starts = sorted({*beside, heap.base, heap.allocation.size})
    ends = dict(pairwise(starts))
    contents: dict[int, int] = {}
    for placed in tuples:
        contents[placed.offset] = max(placed.size, contents.get(placed.offset, 0))
    slots = sum(ends[offset] - offset for offset in contents)
    return Tables(len(tuples), sum(contents.values()), slots)


def _is_tuple(placed: Placed, memory: ProgramMemory) -> bool:
    logical = memory.assignment.buffers.get(placed.buffer)
    instruction = memory.module.by_id.get(logical.instruction) if logical else None
    if logical is None or instruction is None:
        return False
    return isinstance(element_at(instruction.shape, logical.index), tuple)
