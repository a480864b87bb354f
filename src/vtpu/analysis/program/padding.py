"""What tiles cost: for each array the bytes that padding adds, and the dimension that causes them.

A tile is read from the layout that the compiler's artifact states and is never assumed. Sizes follow
from its first tile (`program/layouts.py`); what the compiler placed beyond that is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from vtpu.analysis.program.memory import MemoryItem, MemoryUsage, SpaceUsage
from vtpu.program.layouts import padded_dims
from vtpu.program.memory import space_name
from vtpu.program.shapes import ArrayShape


class PaddingKind(StrEnum):
    """How an array comes to be larger than its elements."""

    MINOR = "minor dimension"
    SECOND_MINOR = "second-minor dimension"
    OUTER = "outer dimension of the tile"
    ONE_DIMENSION = "one-dimensional array"
    SCALAR = "scalar"
    RANK = "tile of higher rank"
    STORAGE = "elements stored wider"


@dataclass(frozen=True, slots=True)
class Cause:
    """What pads: `size` becomes `padded`, because it is rounded up to a multiple of `tile`.

    `dimension` is the dimension's index, None where it is none of the array's: of a scalar, of a tile
    with more numbers than the array has dimensions, of elements (then in bits).
    """

    kind: PaddingKind
    dimension: int | None
    size: int
    padded: int
    tile: int

    @property
    def factor(self) -> float:
        """How many times larger it makes the array."""
        return self.padded / self.size

    @property
    def sizes_that_fill(self) -> tuple[int, ...]:
        """The nearest sizes of the dimension that would not pad, below (if there is one) and above."""
        if self.dimension is None:
            return ()
        below = self.size // self.tile * self.tile
        return (below, self.padded) if below else (self.padded,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedItem:
    """An array that pads. `cause` is what enlarges it most.

    `caused_bytes`: what would go if only the cause did not pad; causes multiply, so those of one array
    do not sum up to `wasted_bytes`.
    """

    item: MemoryItem
    shape: ArrayShape
    tile: tuple[int, ...]
    padded_dims: tuple[int, ...]
    logical_bytes: int
    padded_bytes: int
    cause: Cause
    caused_bytes: int
    is_at_peak: bool

    @property
    def wasted_bytes(self) -> int:
        """Bytes that are no elements."""
        return self.padded_bytes - self.logical_bytes

    @property
    def factor(self) -> float:
        """How many times the elements' bytes the array takes."""
        return self.padded_bytes / self.logical_bytes

    @property
    def unexplained_bytes(self) -> int:
        """What the compiler placed beyond the padded size, or less; its reason is not known."""
        return self.item.bytes - self.padded_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePadding:
    """The padding in a memory space.

    `logical_bytes`, `wasted_bytes`, `unexplained_bytes` and `not_array_bytes` (what has no shape, as
    tuple tables) are of what is alive at the peak, and their sum is `peak_bytes`. `unexplained` are all items whose size does not follow from
    their layout, `rows` all that pad: first those at the peak, by wasted bytes.
    """

    color: int
    peak_bytes: int
    logical_bytes: int
    wasted_bytes: int
    unexplained_bytes: int
    not_array_bytes: int
    rows: tuple[PaddedItem, ...]
    unexplained: tuple[MemoryItem, ...]

    @property
    def name(self) -> str:
        """HBM, VMEM, host ..."""
        return space_name(self.color)


def analyse_padding(usage: MemoryUsage) -> tuple[SpacePadding, ...]:
    """The padding of a program, by memory space."""
    return tuple(_space(space) for space in usage.spaces)


def cause_of(shape: ArrayShape) -> Cause | None:
    """What enlarges an array most; of equal causes the one nearest to the minor dimension."""
    return max(_causes(shape), key=lambda cause: cause.factor, default=None)


def padding_bytes_of(item: MemoryItem) -> int:
    """Bytes that tiles add to an item; 0 of what is no array."""
    return item.padding_bytes or 0


def _causes(shape: ArrayShape) -> Iterator[Cause]:
    """All that enlarge an array, from the minor dimension on."""
    if 0 in shape.dims:
        return
    tile = shape.layout.tiles[0] if shape.layout.tiles else ()
    rank = len(shape.dims)
    paired = zip(shape.layout.minor_to_major, reversed(tile), strict=False)
    for place, (dimension, number) in enumerate(paired):
        size = shape.dims[dimension]
        if rounded := -size % number:
            yield Cause(_kind(place, rank), dimension, size, size + rounded, number)
    if (beyond := prod(tile[: max(len(tile) - rank, 0)])) > 1:
        kind = PaddingKind.RANK if rank else PaddingKind.SCALAR
        yield Cause(kind, None, 1, beyond, beyond)
    bits, stored = shape.element_type.bits, shape.layout.element_bits
    stored = stored or max(bits, 8)
    if 0 < bits < stored:
        yield Cause(PaddingKind.STORAGE, None, bits, stored, stored)


def _kind(place: int, rank: int) -> PaddingKind:
    if rank == 1:
        return PaddingKind.ONE_DIMENSION
    names = (PaddingKind.MINOR, PaddingKind.SECOND_MINOR)
    return names[place] if place < len(names) else PaddingKind.OUTER


def _space(space: SpaceUsage) -> SpacePadding:
    at_peak = space.at_peak()
    arrays = [(i, i.shape) for i in at_peak if i.shape]
    logical = sum(shape.logical_bytes for _, shape in arrays)
    padded = sum(shape.padded_bytes for _, shape in arrays)
    placed = sum(item.bytes for item, _ in arrays)
    return SpacePadding(
        color=space.color,
        peak_bytes=space.peak_bytes,
        logical_bytes=logical,
        wasted_bytes=padded - logical,
        unexplained_bytes=placed - padded,
        not_array_bytes=space.peak_bytes - placed,
        rows=_rows(space),
        unexplained=tuple(i for i in space.items if i.shape and i.shape.padded_bytes != i.bytes),
    )


def _rows(space: SpaceUsage) -> tuple[PaddedItem, ...]:
    found = [row for item in space.items if (row := _row(item, space.peak))]
    found.sort(key=lambda row: (not row.is_at_peak, -row.wasted_bytes, row.item.name))
    return tuple(found)


def _row(item: MemoryItem, peak: int) -> PaddedItem | None:
    shape = item.shape
    if shape is None or not padding_bytes_of(item):
        return None
    cause = cause_of(shape)
    if cause is None:
        return None
    padded = shape.padded_bytes
    return PaddedItem(
        item=item,
        shape=shape,
        tile=shape.layout.tiles[0] if shape.layout.tiles else (),
        padded_dims=padded_dims(shape.dims, shape.layout),
        logical_bytes=shape.logical_bytes,
        padded_bytes=padded,
        cause=cause,
        caused_bytes=padded - padded * cause.size // cause.padded,
        is_at_peak=item.occupant.start <= peak <= item.occupant.end,
    )
