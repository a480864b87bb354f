"""The packers of XLA:TPU by the names of the compiler option `xla_tpu_buffer_assignment_algorithm`.

Rules: openxla/xla, `xla/service/heap_simulator/heap_simulator.cc`. The fallback and its margin are
not public code: they were found by compiling for tpu7x with libtpu 0.0.52, which kept FAST_MERGE at
92.20 GiB and replaced it at 92.24 GiB of 94.74 GiB.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from vtpu.hbm.packing.best_fit import best_fit, by_life, by_size
from vtpu.hbm.packing.fast_merge import fast_merge
from vtpu.hbm.packing.problem import Group, Packing, Trace, placed
from vtpu.units import GIB

FALLBACK_MARGIN_BYTES = 5 * GIB // 2
SPLIT_LARGEST = 500  # `kMaxBuffersWithoutColocationsInExpensivePass`


class Algorithm(StrEnum):
    """How a compiler packs the buffers of one memory space. DEFAULT is another name."""

    BEST_OF_SPATIAL_TEMPORAL = "BEST_OF_SPATIAL_TEMPORAL"
    DEFAULT = "BEST_OF_SPATIAL_TEMPORAL"
    SPATIAL = "SPATIAL"
    TEMPORAL = "TEMPORAL"
    FAST_MERGE = "FAST_MERGE"
    FAST_SPLIT = "FAST_SPLIT"
    FAST_MERGE_WITH_FALLBACK = "FAST_MERGE_WITH_FALLBACK"


def pack(
    trace: Trace, algorithm: Algorithm = Algorithm.DEFAULT, limit: int | None = None
) -> Packing:
    """The packing of `trace` by `algorithm`.

    `limit` is what the heap may take, in bytes: the memory's limit minus the program's other
    allocations. Only FAST_MERGE_WITH_FALLBACK reads it.

    Raises:
        ValueError: FAST_MERGE_WITH_FALLBACK without a limit.
    """
    found = trace.groups
    empty = _buffers(g for g in found if not g.size)
    if empty:  # they get no memory, and their events are no ticks
        found = trace.only(_buffers(found) - empty).groups
    if algorithm is Algorithm.FAST_MERGE_WITH_FALLBACK:
        packing = _merged_or_best(found, trace.alignment, limit)
    else:
        packing = _PACKERS[algorithm](found, trace.alignment)
    return replace(packing, offsets=dict.fromkeys(empty, 0) | packing.offsets)


def _buffers(found: Iterable[Group]) -> frozenset[int]:
    return frozenset(m.buffer for g in found for m in g.members)


def _spatial(found: tuple[Group, ...], alignment: int) -> Packing:
    return placed(found, best_fit(found, by_size, alignment))


def _temporal(found: tuple[Group, ...], alignment: int) -> Packing:
    return placed(found, best_fit(found, by_life, alignment))


def _best(found: tuple[Group, ...], alignment: int) -> Packing:
    """The smaller heap; of equals that of SPATIAL."""
    both = _spatial(found, alignment), _temporal(found, alignment)
    return min(both, key=lambda packing: packing.heap_size)


def _merged(found: tuple[Group, ...], alignment: int) -> Packing:
    return placed(found, fast_merge(found, alignment))


def _split(found: tuple[Group, ...], alignment: int) -> Packing:
    """Groups and the largest single buffers as SPATIAL does, the others above them as FAST_MERGE does."""
    small = sorted((g for g in found if len(g.members) == 1), key=by_size)[SPLIT_LARGEST:]
    above = {g.owner.buffer for g in small}
    large = [g for g in found if g.owner.buffer not in above]
    offsets = best_fit(large, by_size, alignment)
    floor = max((offsets[g.owner.buffer] + g.size for g in large), default=0)
    return placed(found, offsets | fast_merge(small, alignment, floor))


_PACKERS = {
    Algorithm.BEST_OF_SPATIAL_TEMPORAL: _best,
    Algorithm.SPATIAL: _spatial,
    Algorithm.TEMPORAL: _temporal,
    Algorithm.FAST_MERGE: _merged,
    Algorithm.FAST_SPLIT: _split,
}


def _merged_or_best(found: tuple[Group, ...], alignment: int, limit: int | None) -> Packing:
    if limit is None:
        raise ValueError("FAST_MERGE_WITH_FALLBACK depends on the memory's limit: pass limit=bytes")
    merged = _merged(found, alignment)
    return merged if merged.heap_size <= limit - FALLBACK_MARGIN_BYTES else _best(found, alignment)
