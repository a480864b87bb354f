"""Few sizes to which many are padded, so that few programs do for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

_MOST = 4
_ENOUGH = 0.10  # of padding: no further bucket for less
_TOO_MUCH = 1 << 62


@dataclass(frozen=True, slots=True)
class Buckets:
    """`sizes` ascending. `padding` is what they add, as a share of what the calls had."""

    sizes: tuple[int, ...]
    padding: float


def choose_buckets(calls: Mapping[int, int]) -> Buckets:
    """The fewest sizes that pad by a tenth at most, or the best four. `calls`: how often each size came.

    Exact for each number of buckets: sizes in order are cut into runs, and each run goes to its largest,
    rounded up to what fills a tile (`_unit`).
    """
    rounded: Counter[int] = Counter()
    for size, count in calls.items():
        rounded[_rounded(size)] += count
    tries = (_cut(rounded, most) for most in range(1, _MOST + 1))
    found = [Buckets(buckets, _padding(buckets, calls)) for buckets in tries]
    return next((b for b in found if b.padding <= _ENOUGH), min(found, key=lambda b: b.padding))


def _cut(calls: Mapping[int, int], most: int) -> tuple[int, ...]:
    """The cut of rounded sizes into at most `most` runs that pads least."""
    sizes = sorted(calls)
    count = list(accumulate((calls[s] for s in sizes), initial=0))

    @cache
    def best(start: int, runs: int) -> tuple[int, tuple[int, ...]]:
        """What padding takes from `start` on, without what the sizes have themselves, and the buckets."""
        if start == len(sizes):
            return 0, ()
        if not runs:
            return _TOO_MUCH, ()
        options: list[tuple[int, tuple[int, ...]]] = []
        for end in range(start, len(sizes)):
            rest, others = best(end + 1, runs - 1)
            padded = sizes[end] * (count[end + 1] - count[start])
            options.append((padded + rest, (sizes[end], *others)))
        return min(options)

    return best(0, most)[1]


def _rounded(size: int) -> int:
    unit = _unit(size)
    return -(-size // unit) * unit


def _unit(size: int) -> int:
    """Tiles are 8 by 128: https://docs.jax.dev/en/latest/pallas/tpu/details.html"""
    return 128 if size > 256 else 8 if size > 8 else 1


def _padding(buckets: Sequence[int], calls: Mapping[int, int]) -> float:
    whole = sum(size * n for size, n in calls.items())
    padded = sum(next(b for b in buckets if b >= size) * n for size, n in calls.items())
    return padded / whole - 1 if whole else 0.0
