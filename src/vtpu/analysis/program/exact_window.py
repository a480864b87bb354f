"""What an exact packing of a heap's peak would reach, with an independent checker's verdict."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.program.heap_replay import Heap
from vtpu.hbm.packing import Trace, pack_exactly, peak_window, violations


@dataclass(frozen=True, slots=True)
class WindowPacking:
    """The peak's neighbourhood packed by CP-SAT.

    No packing of the whole heap is below `bound_bytes`; whether `heap_bytes` can be had with the rest
    around it is not known. `left_out`: buffers too small to take part. `violations`: what an
    independent checker finds wrong with the packing, so none is the proof that it is legal.
    """

    first_instruction: str
    last_instruction: str
    left_out: int
    heap_bytes: int
    bound_bytes: int
    is_optimal: bool
    violations: tuple[str, ...]


def pack_window(heap: Heap, trace: Trace) -> WindowPacking | None:
    """The peak's window of a heap, packed; None of a heap without events.

    Raises:
        UsageError: OR-Tools is needed and not installed.
    """
    window = peak_window(trace, heap.packing)
    if window.first is None or window.last is None:
        return None
    found = pack_exactly(window.trace)
    wrong = violations(window.trace, found.packing)
    return WindowPacking(
        first_instruction=heap.events[window.first].instruction,
        last_instruction=heap.events[window.last].instruction,
        left_out=window.left_out,
        heap_bytes=found.packing.heap_size,
        bound_bytes=found.bound,
        is_optimal=found.is_optimal,
        violations=tuple(f"buffer {v.buffer} {v.what}" for v in wrong),
    )
