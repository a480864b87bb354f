"""How the memory of a program goes with the size of its batch, from compiles at several sizes.

Nothing says which dimension of a compiled buffer is the batch's. But what is compiled at several sizes
differs only by that: a size of a dimension that all of the programs have is fixed, any other one came
with the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import lcm

from vtpu.analysis.program.memory import MemoryItem, SpaceUsage
from vtpu.program.layouts import padded_dims
from vtpu.program.memory import AllocationKind

NEGLIGIBLE_PART = 100
"""Padding up to one part in so many of what grows with the batch counts as none: labels are always padded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCandidate:
    """A size of the batch that was compiled. Bytes are HBM per device; None is unknown.

    `padding_bytes`: of all that is alive at the peak; `batch_padding_bytes`: what of it is due to
    dimensions that grow with the batch, `batch_bytes`: of the buffers that have such ones.
    `allocated_bytes`, `allocations`: what one execution takes at run time: results that are not
    donated, and the program's temporaries. `bytes_per_example`: the difference to the next smaller
    candidate (of the smallest to the next larger), per example, rounded down.
    """

    batch: int
    fits: bool
    need_bytes: int | None
    bytes_per_example: int | None
    padding_bytes: int | None
    batch_padding_bytes: int | None
    batch_bytes: int | None
    temp_bytes: int | None
    allocated_bytes: int | None
    allocations: int | None
    error: str | None

    @property
    def pads_nothing(self) -> bool | None:
        """Whether the size goes into the tiles of the chip; None where that is not known."""
        if self.batch_padding_bytes is None or self.batch_bytes is None:
            return None
        return self.batch_padding_bytes * NEGLIGIBLE_PART <= self.batch_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSweep:
    """Sizes of the batch of one function on a slice, in order.

    `scales`: the arguments that grow with the batch. `step`: what the size must be a multiple of.
    `tile_multiple`: sizes that pad nothing are multiples of it, None where that is not known.
    """

    name: str
    slice: str
    versions: dict[str, str]
    scales: tuple[str, ...]
    step: int
    limit_bytes: int | None
    margin_bytes: int
    most_compiles: int
    tile_multiple: int | None
    candidates: tuple[BatchCandidate, ...]

    @property
    def largest(self) -> int | None:
        """The largest size that was compiled and fits with the margin; None where none does."""
        return max((c.batch for c in self.candidates if c.fits), default=None)

    @property
    def best(self) -> int | None:
        """The largest one that fits and pads nothing; None where none does."""
        return max((c.batch for c in self.candidates if c.fits and c.pads_nothing), default=None)

    @property
    def next_above(self) -> int | None:
        """The next larger size that was compiled, which does not fit."""
        largest = self.largest or 0
        return min((c.batch for c in self.candidates if c.batch > largest), default=None)

    def candidate(self, batch: int) -> BatchCandidate | None:
        """What is known of a size; None when it was not compiled."""
        return next((c for c in self.candidates if c.batch == batch), None)


@dataclass(frozen=True, slots=True)
class BatchPadding:
    """What dimensions that grow with the batch add to its buffers, in bytes at the peak.

    `bytes`: of the buffers, `padding_bytes`: of them padding by such dimensions, `multiple`: sizes of
    the batch that are multiples of it do not pad the buffers that matter.
    """

    bytes: int
    padding_bytes: int
    multiple: int


def dimensions(hbm: SpaceUsage) -> frozenset[int]:
    """The sizes of all dimensions of all buffers."""
    return frozenset(d for item in hbm.items if item.shape for d in item.shape.dims)


def batch_padding(hbm: SpaceUsage, batch: int, fixed: frozenset[int]) -> BatchPadding:
    """The padding that is due to the batch at the peak. `fixed`: sizes that do not change with it."""
    found = [(item, list(_batch_dims(item, fixed))) for item in hbm.at_peak()]
    found = [(item, dims) for item, dims in found if dims]
    whole = sum(item.bytes for item, _ in found)
    padding = sum(item.bytes * (p - d) // p for item, dims in found for d, p, _ in dims)
    multiples = [
        _multiple(batch, size, tile)
        for item, dims in found
        for size, _, tile in dims
        if item.bytes * NEGLIGIBLE_PART >= whole
    ]
    return BatchPadding(whole, padding, reduce(lcm, multiples, 1))


def _batch_dims(item: MemoryItem, fixed: frozenset[int]) -> Iterator[tuple[int, int, int]]:
    """The dimensions of a buffer that came with the batch: size, padded size, tile."""
    shape = item.shape
    if shape is None:
        return
    layout = shape.layout
    tile = dict(
        zip(layout.minor_to_major, reversed(layout.tiles[0] if layout.tiles else ()), strict=False)
    )
    for number, (size, padded) in enumerate(
        zip(shape.dims, padded_dims(shape.dims, layout), strict=True)
    ):
        if size and size not in fixed:
            yield size, padded, tile.get(number, 1)


def _multiple(batch: int, size: int, tile: int) -> int:
    """What the batch must be a multiple of, so that a dimension in proportion to it fills its tiles."""
    return Fraction(tile * batch, size).numerator


def allocated_by_a_step(hbm: SpaceUsage) -> int:
    """HBM that an execution takes at run time: results that are not donated, and temporaries."""
    return sum(hbm.by_kind.get(k, 0) for k in (AllocationKind.OUTPUT, AllocationKind.TEMP))


def per_example(needs: Sequence[tuple[int, int | None]]) -> dict[int, int]:
    """Bytes per example by batch, from pairs of batch and need: differences of neighbours."""
    known = sorted((batch, need) for batch, need in needs if need is not None)
    slopes = {b: (need_b - need_a) // (b - a) for (a, need_a), (b, need_b) in pairwise(known)}
    if slopes:
        slopes[known[0][0]] = slopes[known[1][0]]
    return slopes
