"""Shapes as the native core takes them: layout taken apart, bytes counted."""

from __future__ import annotations

from functools import cache

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout, LayoutError, logical_bytes, padded_bytes, parse_layout

#: element type, dims, layout as text, minor to major, tiles, logical bytes, bytes on the device
ShapeSpec = tuple[int, tuple[int, ...], str, tuple[int, ...], tuple[tuple[int, ...], ...], int, int]


@cache
def _layout(text: str) -> Layout:
    return parse_layout(text)


def shape_spec(element_type: int, dims: tuple[int, ...], layout: str) -> ShapeSpec:
    """The spec of an array in a layout that XLA prints as `layout`.

    Raises:
        LayoutError: the layout cannot be understood.
    """
    known = ElementType(element_type)
    parsed = _layout(layout)
    if len(parsed.minor_to_major) != len(dims):
        raise LayoutError(f"layout {layout} does not fit {len(dims)} dimensions")
    return (
        element_type,
        dims,
        layout,
        parsed.minor_to_major,
        parsed.tiles,
        logical_bytes(known, dims),
        padded_bytes(known, dims, parsed),
    )


def token_spec(dims: tuple[int, ...]) -> ShapeSpec:
    """The spec of a token: a value without data."""
    return (ElementType.TOKEN, dims, "{" + ",".join(map(str, range(len(dims)))) + "}",
            tuple(range(len(dims))), (), 0, 0)  # fmt: skip
