"""Shapes of values: arrays with their layouts, tuples of them; as HLO prints them.

`f32[8,128]{1,0:T(8,128)}` is an array, `(s32[], f32[8])` a tuple, `token[]` an array without bytes.
HLO has more types (opaque values, buffers) that hold no array of their own; those are None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout, LayoutError, logical_bytes, padded_bytes, parse_layout

_ARRAY = re.compile(r"(\w+)\[([^\]]*)\]((?:\{[^{}]*\})?)")
_COMMENT = re.compile(r"/\*.*?\*/")
_NAMED = {t.xla_name: t for t in ElementType if t is not ElementType.INVALID}


class ShapeError(ValueError):
    """A text that is no shape."""


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """An array: element type, dimensions, layout."""

    element_type: ElementType
    dims: tuple[int, ...]
    layout: Layout

    @property
    def logical_bytes(self) -> int:
        """Bytes of its elements alone, densely packed: 4-bit elements take half a byte."""
        if self.element_type.bits >= 8:
            return logical_bytes(self.element_type, self.dims)
        count = logical_bytes(self.element_type, self.dims)  # one byte each
        return -(-count * self.element_type.bits // 8)

    @property
    def padded_bytes(self) -> int:
        """Bytes that it takes in its layout, padding to tiles included."""
        return padded_bytes(self.element_type, self.dims, self.layout)

    def __str__(self) -> str:
        dims = ",".join(map(str, self.dims))
        layout = str(self.layout) if self.dims or self.layout.tiles else ""
        return f"{self.element_type.xla_name}[{dims}]{layout}"


Shape = ArrayShape | tuple["Shape", ...] | None


def leaves(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
    """The arrays of a shape (and what is none) with their indices; tuples themselves are left out."""
    if not isinstance(shape, tuple):
        yield index, shape
        return
    for i, element in enumerate(shape):
        yield from leaves(element, (*index, i))


def element_at(shape: Shape, index: tuple[int, ...]) -> Shape:
    """The part of a shape at an index; None where there is no such part."""
    for i in index:
        if not isinstance(shape, tuple) or i >= len(shape):
            return None
        shape = shape[i]
    return shape


def parse_shape(text: str) -> Shape:
    """The shape that HLO prints as `text`.

    Raises:
        ShapeError: `text` is not a shape.
    """
    cleaned = _COMMENT.sub("", text).strip()
    shape, at = _read(cleaned, 0)
    if cleaned[at:].strip():
        raise ShapeError(f"not a shape: {text[:120]!r}")
    return shape


def read_shape(text: str, start: int = 0) -> tuple[Shape, int]:
    """The shape that begins at `start` and the index behind it.

    Raises:
        ShapeError: there is none.
    """
    return _read(text, start)


def _read(text: str, at: int) -> tuple[Shape, int]:
    if text.startswith("(", at):
        return _read_tuple(text, at + 1)
    match = _ARRAY.match(text, at)
    if not match:
        raise ShapeError(f"not a shape: {text[at : at + 120]!r}")
    element_type = _NAMED.get(match[1])
    if element_type is None:
        return None, match.end()
    try:
        # `<=8` is a bound of a dynamic dimension: memory is for the bound
        dims = tuple(int(d.strip().removeprefix("<=")) for d in match[2].split(",") if d.strip())
        layout = parse_layout(match[3]) if match[3] else Layout(tuple(reversed(range(len(dims)))))
    except (LayoutError, ValueError) as error:
        raise ShapeError(f"not a shape: {text[at : at + 120]!r}") from error
    return ArrayShape(element_type, dims, layout), match.end()


def _read_tuple(text: str, at: int) -> tuple[Shape, int]:
    elements: list[Shape] = []
    while True:
        at = _skip_space(text, at)
        if text.startswith(")", at):
            return tuple(elements), at + 1
        if text.startswith("/*", at):
            at = text.find("*/", at) + 2
            if at < 2:
                raise ShapeError("a comment that does not end")
            continue
        element, at = _read(text, at)
        elements.append(element)
        at = _skip_space(text, at)
        if text.startswith(",", at):
            at += 1
        elif not text.startswith(")", at):
            raise ShapeError(f"a tuple that is cut: {text[at : at + 120]!r}")


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
