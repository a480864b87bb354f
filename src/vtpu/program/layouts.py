"""Layouts of arrays in device memory, and the bytes an array takes in one.

A layout is what XLA prints: `{1,0:T(8,128)(2,1)}`, dimensions from minor to major, then tiles, then
`E(bits)` when an element is stored in fewer bits than a byte, `S(n)` for a memory space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from vtpu.program.element_types import ElementType

_LAYOUT = re.compile(
    r"\{(?P<order>[\d,]*)(?::(?P<rest>.*))?\}"
    r"|\{:(?P<scalar>.*)\}"
)
_TILES = re.compile(r"T((?:\([\d,*]+\))+)")
_TILE = re.compile(r"\(([\d,*]+)\)")
_BITS = re.compile(r"E\((\d+)\)")
_SPACE = re.compile(r"S\((\d+)\)")


class LayoutError(ValueError):
    """A layout that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout: dimension order (minor first), tiles (outermost first), element bits or 0, space."""

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()
    element_bits: int = 0
    memory_space: int = 0

    def __str__(self) -> str:
        text = "{" + ",".join(map(str, self.minor_to_major))
        suffix = ""
        if self.tiles:
            suffix += "T" + "".join(f"({','.join(map(str, tile))})" for tile in self.tiles)
        if self.element_bits:
            suffix += f"E({self.element_bits})"
        if self.memory_space:
            suffix += f"S({self.memory_space})"
        return text + (f":{suffix}" if suffix else "") + "}"


def parse_layout(text: str) -> Layout:
    """The layout that XLA prints as `text`.

    Raises:
        LayoutError: `text` is not a layout, or has a tile that combines dimensions (`*`).
    """
    match = _LAYOUT.fullmatch(text.strip())
    if not match:
        raise LayoutError(f"not a layout: {text!r}")
    order = tuple(int(n) for n in (match["order"] or "").split(",") if n)
    rest = match["rest"] or match["scalar"] or ""
    tiles: tuple[tuple[int, ...], ...] = ()
    if tiled := _TILES.search(rest):
        if "*" in tiled[1]:
            raise LayoutError(f"a tile that combines dimensions is not supported: {text!r}")
        tiles = tuple(tuple(int(n) for n in t.split(",")) for t in _TILE.findall(tiled[1]))
    bits = _BITS.search(rest)
    space = _SPACE.search(rest)
    return Layout(order, tiles, int(bits[1]) if bits else 0, int(space[1]) if space else 0)


def logical_bytes(element_type: ElementType, dims: tuple[int, ...]) -> int:
    """Bytes of a dense array as the host holds it."""
    return prod(dims) * element_type.host_bytes


def padded_dims(dims: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The dimensions after padding to the first tile; only that one pads (XLA `ArraySize`)."""
    if not layout.tiles:
        return dims
    padded = list(dims)
    for dimension, tile in zip(layout.minor_to_major, reversed(layout.tiles[0]), strict=False):
        padded[dimension] = -(-padded[dimension] // tile) * tile
    return tuple(padded)


def padded_bytes(element_type: ElementType, dims: tuple[int, ...], layout: Layout) -> int:
    """Bytes of an array in device memory, padding included.

    The minor dimension pairs with the last number of the first tile, the next with the one before
    (openxla/xla `docs/tiled_layout.md`). A tile with more numbers than the array has dimensions
    pads as if the array had further dimensions of 1, so a scalar in `T(128)` takes 128 elements.
    """
    if element_type is ElementType.TOKEN or 0 in dims:
        return 0
    bits = layout.element_bits or max(element_type.bits, 8)
    elements = prod(padded_dims(dims, layout))
    if layout.tiles and len(layout.tiles[0]) > len(dims):
        elements *= prod(layout.tiles[0][: len(layout.tiles[0]) - len(dims)])
    return -(-elements * bits // 8)
