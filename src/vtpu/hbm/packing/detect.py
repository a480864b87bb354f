"""Which algorithm packed a heap: found by replaying the trace, never assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtpu.hbm.packing.algorithms import Algorithm, pack
from vtpu.hbm.packing.problem import Trace


@dataclass(frozen=True, slots=True)
class Detection:
    """What the replay of every algorithm gave, against the compiler's own offsets."""

    exact: tuple[Algorithm, ...]  # all that reproduce every offset
    nearest: Algorithm  # one that reproduces the most offsets
    agreeing: int  # how many buffers `nearest` puts where the compiler put them
    compared: int  # how many buffers have an offset to compare


def detect(trace: Trace, offsets: Mapping[int, int], limit: int | None = None) -> Detection:
    """Replays `trace` with every algorithm and compares the offsets of the buffers in `offsets`.

    Several may agree, on small programs most do. Without a `limit` (see `pack`)
    FAST_MERGE_WITH_FALLBACK is not tried: it is FAST_MERGE or the default then.
    """
    candidates = [
        a for a in Algorithm if a is not Algorithm.FAST_MERGE_WITH_FALLBACK or limit is not None
    ]
    agreeing = {a: _agreeing(pack(trace, a, limit).offsets, offsets) for a in candidates}
    nearest = max(candidates, key=lambda a: agreeing[a])
    exact = tuple(a for a in candidates if agreeing[a] == len(offsets))
    return Detection(exact, nearest, agreeing[nearest], len(offsets))


def which_algorithms(
    trace: Trace, offsets: Mapping[int, int], limit: int | None = None
) -> tuple[Algorithm, ...]:
    """All algorithms that put every buffer at the compiler's offset; empty where none does."""
    return detect(trace, offsets, limit).exact


def _agreeing(ours: Mapping[int, int], theirs: Mapping[int, int]) -> int:
    return sum(ours.get(buffer) == offset for buffer, offset in theirs.items())
