"""Shapes and names in the text of HLO instructions, as messages quote them: often cut."""

from __future__ import annotations

import re
from functools import cache

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.shapes import ArrayShape, ShapeError, leaves, parse_shape

_ARRAY = re.compile(r"\b[a-z]\w{0,14}\[[\d,<=]*\](?:\{[\d,]*(?::[^{}\s]*)?\})?")
_DEEPEST = 64
_NAME = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = ")
_AVAL = re.compile(r"~?(\w+)\[([\d,]*)\]")


def array_shape(text: str | None) -> ArrayShape | None:
    """The array whose shape is `text`, or None where it is no shape or has an impossible layout."""
    shapes = array_shapes(text) if text else ()
    return shapes[0] if len(shapes) == 1 else None


def array_shapes(text: str) -> tuple[ArrayShape, ...]:
    """The arrays of the shape `text`, a tuple's in order; none where it is no shape."""
    if text.count("(") > _DEEPEST * 16 or "(" * _DEEPEST in text:
        return ()
    try:
        shape = parse_shape(text)
    except (ShapeError, RecursionError):
        return ()
    return tuple(leaf for _, leaf in leaves(shape) if isinstance(leaf, ArrayShape) and _fits(leaf))


def _fits(shape: ArrayShape) -> bool:
    order = shape.layout.minor_to_major
    tiles = shape.layout.tiles
    is_sane = not order or sorted(order) == list(range(len(shape.dims)))
    return is_sane and all(n > 0 for tile in tiles for n in tile)


def quoted_shapes(text: str) -> tuple[ArrayShape, ...]:
    """Every array shape that stands anywhere in `text`, in order."""
    found = (array_shape(match[0]) for match in _ARRAY.finditer(text))
    return tuple(shape for shape in found if shape)


def instruction_name(text: str | None) -> str | None:
    """The name of the instruction that `text` prints: `scale.1` of `%scale.1 = f32[8] …`."""
    match = _NAME.match(text or "")
    return match[1] if match else None


def aval_shape(text: str) -> ArrayShape | None:
    """The shape that JAX prints as `float32[2,3]`, row-major; or that HLO prints."""
    match = _AVAL.fullmatch(text.strip())
    known = _numpy_names().get(match[1]) if match else None
    if match is None or known is None:
        return array_shape(text.strip())
    dims = tuple(int(d) for d in match[2].split(",") if d)
    return ArrayShape(known, dims, Layout(tuple(reversed(range(len(dims))))))


@cache
def _numpy_names() -> dict[str, ElementType]:
    unknown = (ElementType.INVALID, ElementType.TOKEN)
    return {t.numpy_dtype.name: t for t in ElementType if t not in unknown}
