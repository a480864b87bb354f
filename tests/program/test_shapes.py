"""Shapes as HLO prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.shapes import ArrayShape, ShapeError, element_at, leaves, parse_shape

TYPES = [t for t in ElementType if t not in (ElementType.INVALID, ElementType.TOKEN)]


@st.composite
def arrays(draw: st.DrawFn) -> ArrayShape:
    dims = tuple(draw(st.lists(st.integers(0, 4096), max_size=5)))
    order = tuple(draw(st.permutations(range(len(dims)))))
    tiles = draw(st.sampled_from([(), ((8, 128),), ((8, 128), (2, 1)), ((1024,),)]))
    return ArrayShape(draw(st.sampled_from(TYPES)), dims, Layout(order, tiles))


shapes = st.recursive(arrays(), lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


def printed(shape: object) -> str:
    if isinstance(shape, tuple):
        return f"({', '.join(map(printed, shape))})"
    return str(shape)


@given(shapes)
def test_what_is_printed_is_read_again(shape):
    assert parse_shape(printed(shape)) == shape


def test_comments_of_long_tuples_are_no_elements():
    long = parse_shape("(f32[], f32[], f32[], f32[], f32[], /*index=5*/s32[4]{0})")
    assert element_at(long, (5,)) == ArrayShape(ElementType.S32, (4,), Layout((0,)))


def test_a_token_has_no_bytes():
    (_, array), (_, token) = leaves(parse_shape("(f32[2]{0:T(128)}, token[])"))
    assert isinstance(array, ArrayShape)
    assert isinstance(token, ArrayShape)
    assert (array.logical_bytes, array.padded_bytes) == (8, 512)
    assert (token.logical_bytes, token.padded_bytes) == (0, 0)


def test_an_opaque_value_is_no_array():
    assert parse_shape("opaque[]") is None


def test_an_array_without_a_layout_is_row_major():
    assert parse_shape("f32[2,3]") == ArrayShape(ElementType.F32, (2, 3), Layout((1, 0)))


def test_elements_of_four_bits_take_half_a_byte():
    assert ArrayShape(ElementType.S4, (3,), Layout((0,))).logical_bytes == 2


@pytest.mark.parametrize("text", ["", "f32", "f32[2", "f32[2]{0} more", "(f32[2]{0}", "f32[a]"])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ShapeError):
        parse_shape(text)
