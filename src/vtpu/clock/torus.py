"""The network between the chips of a slice: who is where, and what a group of devices has of its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod

Coords = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Position:
    """A device: its chip's coordinates in its slice, which slice, and which core of the chip."""

    coords: Coords
    slice_index: int = 0
    core: int = 0


def position_at(coords: Sequence[int], slice_index: int = 0, core: int = 0) -> Position:
    """The position of a device whose chip has one, two or three coordinates."""
    x, y, z = (*coords, 0, 0, 0)[:3]
    return Position((x, y, z), slice_index, core)


@dataclass(frozen=True, slots=True)
class Torus:
    """One slice: chips along x, y and z, and which of these axes wrap around."""

    bounds: Coords
    wrap: tuple[bool, bool, bool]

    def distance(self, a: Coords, b: Coords) -> int:
        """Links on a shortest way between two chips."""
        return sum(abs(step) for step in self._steps(a, b))

    def _steps(self, a: Coords, b: Coords) -> Iterator[int]:
        """How far to go along each axis, with its sign."""
        for here, there, size, wraps in zip(a, b, self.bounds, self.wrap, strict=True):
            step = there - here
            if wraps and abs(step) * 2 > size:
                step -= size if step > 0 else -size
            yield step

    def route(self, a: Coords, b: Coords) -> Iterator[tuple[Coords, int, int]]:
        """The links of the way that goes along x, then y, then z: (from, axis, direction)."""
        here = list(a)
        for axis, step in enumerate(self._steps(a, b)):
            direction = 1 if step > 0 else -1
            for _ in range(abs(step)):
                yield (here[0], here[1], here[2]), axis, direction
                here[axis] = (here[axis] + direction) % self.bounds[axis]


@dataclass(frozen=True, slots=True)
class Span:
    """A group of devices along one axis: how many chips, and whether they close a ring.

    `stride` is the distance between neighbours of the group. The chips between are in other groups of the
    same program, which use the same links at the same time.
    """

    axis: int
    chips: int
    stride: int
    is_ring: bool

    @property
    def links(self) -> float:
        """Links that every chip of the group has to others of it, at the least; its share of them."""
        return (2 if self.is_ring else 1) / self.stride

    @property
    def farthest(self) -> int:
        """Hops between the two that are farthest from each other along the axis."""
        return self.stride * (self.chips // 2 if self.is_ring else self.chips - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """What the network gives a group of devices that work together.

    `spans` are its axes when it is a box of the torus; empty when it is not, or one chip. `cores` are
    devices of the group on one chip, `slices` how many slices it spans.
    """

    chips: int
    slices: int
    spans: tuple[Span, ...]
    is_box: bool
    farthest: int

    @property
    def links(self) -> float:
        """Links over which every chip can receive at the same time.

        In a box without wrap-around its corners have the least: one along each axis. A group that is no
        box is taken to have one.
        """
        return (sum(span.links for span in self.spans) or 1) if self.is_box else 1


@lru_cache(maxsize=1024)  # the same few groups come again with every collective
def group_of(torus: Torus, members: tuple[Position, ...]) -> Group:
    """The group of the given devices, which are of equal shape in each slice that they are in."""
    first = members[0].slice_index
    chips = sorted({m.coords for m in members if m.slice_index == first})
    spans = tuple(_spans(torus, chips))
    return Group(
        chips=len(chips),
        slices=len({m.slice_index for m in members}),
        spans=spans,
        is_box=prod(span.chips for span in spans) == len(chips),
        farthest=sum(span.farthest for span in spans),
    )


def _spans(torus: Torus, chips: Sequence[Coords]) -> Iterator[Span]:
    for axis in range(3):
        places = sorted({chip[axis] for chip in chips})
        if len(places) < 2:
            continue
        stride = min(b - a for a, b in pairwise(places))
        closes = torus.wrap[axis] and stride * len(places) == torus.bounds[axis]
        yield Span(axis, len(places), stride, closes and len(places) > 2)


def heaviest_link(torus: Torus, pairs: Sequence[tuple[Coords, Coords]]) -> tuple[int, int]:
    """How many of the messages share the busiest link, and the links on the longest way.

    Each message goes along x, then y, then z. Both are 0 when none leaves its chip.
    """
    loads: Counter[tuple[Coords, int, int]] = Counter()
    longest = 0
    for a, b in pairs:
        way = list(torus.route(a, b))
        loads.update(way)
        longest = max(longest, len(way))
    return max(loads.values(), default=0), longest
