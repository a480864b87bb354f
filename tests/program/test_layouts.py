"""Layouts and the bytes an array takes in one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import (
    Layout,
    LayoutError,
    logical_bytes,
    padded_bytes,
    padded_dims,
    parse_layout,
)

#: Shapes with their layout and bytes, as libtpu compiled a one-argument program (0.0.52).
COMPILED = [
    ("BF16", (), "{:T(256)}", 512),
    ("S4", (), "{:T(1024)E(4)}", 512),
    ("C64", (), "{:T(128)}", 1024),
    ("F32", (1025,), "{0:T(1024)}", 8192),
    ("F32", (1000, 3), "{0,1:T(4,128)}", 16_384),
    ("F32", (32, 224, 224, 3), "{2,1,3,0:T(8,128)}", 22_020_096),
    ("BF16", (16, 1280, 40), "{1,2,0:T(8,128)(2,1)}", 1_638_400),
    ("S8", (100, 500), "{1,0:T(8,128)(4,1)}", 53_248),
    ("BF16", (1000, 1000), "{1,0:T(8,128)(2,1)}", 2_048_000),
    ("F32", (129, 1025), "{1,0:T(8,128)}", 626_688),
    ("BF16", (64, 50257), "{1,0:T(8,128)(2,1)}", 6_438_912),
    ("PRED", (7, 9), "{1,0:T(8,128)(4,1)}", 1024),
    ("F32", (), "{:T(128)}", 512),
    ("F32", (0, 4), "{1,0}", 0),
]


@pytest.mark.parametrize(("element_type", "dims", "layout", "size"), COMPILED)
def test_padded_bytes_are_those_of_the_compiler(element_type, dims, layout, size):
    assert padded_bytes(ElementType[element_type], dims, parse_layout(layout)) == size


def test_only_the_first_tile_pads():
    assert padded_dims((9, 130), parse_layout("{1,0:T(8,128)(2,1)}")) == (16, 256)


@pytest.mark.parametrize("text", ["", "{", "8,128", "{0:T(8,*)}", "{a}"])
def test_what_is_not_a_layout_is_refused(text):
    with pytest.raises(LayoutError):
        parse_layout(text)


orders = st.integers(0, 4).flatmap(lambda rank: st.permutations(range(rank)))
tiles = st.lists(st.lists(st.integers(1, 1024), min_size=1, max_size=2).map(tuple), max_size=2)


@given(orders, tiles, st.sampled_from([0, 4, 2]), st.sampled_from([0, 1, 5]))
def test_a_layout_is_read_back_from_its_text(order, some_tiles, bits, space):
    layout = Layout(tuple(order), tuple(some_tiles), bits, space)
    assert parse_layout(str(layout)) == layout


dims_of = st.lists(st.integers(1, 300), min_size=1, max_size=4).map(tuple)


@given(dims_of, st.sampled_from(list(ElementType)[1:23]), st.integers(1, 32), st.integers(1, 256))
def test_padding_never_makes_an_array_smaller_and_twice_is_once(dims, element_type, rows, lanes):
    order = tuple(reversed(range(len(dims))))
    layout = Layout(order, ((rows, lanes),))
    padded = padded_dims(dims, layout)
    assert all(after >= before for after, before in zip(padded, dims, strict=True))
    assert padded_dims(padded, layout) == padded
    if element_type.bits >= 8:
        assert padded_bytes(element_type, dims, layout) >= logical_bytes(element_type, dims)


def test_every_row_of_the_measured_tilings_agrees():
    rows = (Path(__file__).parent / "tilings.tsv").read_text().splitlines()
    for row in rows:
        element_type, dims, layout, size = row.split("\t")
        shape = tuple(int(n) for n in dims.split(",") if n)
        counted = padded_bytes(ElementType[element_type], shape, parse_layout(layout))
        assert counted == int(size), row
    assert len(rows) > 200
