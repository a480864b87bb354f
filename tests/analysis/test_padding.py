"""Padding: what the tiles that the compiler states cost, and which dimension is to blame."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answers import load_case
from memories import arguments_of
from running import Bench
from vtpu.analysis.program.memory import analyse_memory
from vtpu.analysis.program.padding import (
    Cause,
    PaddedItem,
    PaddingKind,
    SpacePadding,
    analyse_padding,
    cause_of,
)
from vtpu.analysis.program.recorded import memory_of
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout, padded_bytes, parse_layout
from vtpu.program.shapes import ArrayShape, parse_shape
from vtpu.recording.file import load_recording

COMPILE = Path(__file__).parents[1] / "compile_case.py"
TILINGS = Path(__file__).parents[1] / "program" / "tilings.tsv"


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def padding_of(*shapes: ArrayShape, extra_bytes: int = 0) -> SpacePadding:
    (space,) = analyse_padding(analyse_memory(arguments_of(shapes, extra_bytes)))
    return space


@pytest.mark.parametrize(
    ("text", "cause", "fills"),
    [
        ("f32[1000,3]{1,0:T(8,128)}", Cause(PaddingKind.MINOR, 1, 3, 128, 128), (128,)),
        ("f32[1000,3]{0,1:T(4,128)}", Cause(PaddingKind.SECOND_MINOR, 1, 3, 4, 4), (4,)),
        ("f32[5,256]{1,0:T(8,128)}", Cause(PaddingKind.SECOND_MINOR, 0, 5, 8, 8), (8,)),
        ("f32[16,200]{1,0:T(8,128)}", Cause(PaddingKind.MINOR, 1, 200, 256, 128), (128, 256)),
        ("f32[1025]{0:T(1024)}", Cause(PaddingKind.ONE_DIMENSION, 0, 1025, 2048, 1024), (1024, 2048)),
        ("f32[]{:T(128)}", Cause(PaddingKind.SCALAR, None, 1, 128, 128), ()),
        ("f32[128]{0:T(8,128)}", Cause(PaddingKind.RANK, None, 1, 8, 8), ()),
        ("s4[1024]{0:T(1024)}", Cause(PaddingKind.STORAGE, None, 4, 8, 8), ()),
    ],
)  # fmt: skip
def test_the_dimension_that_pads_most_is_named_with_the_sizes_that_would_fill_it(
    text: str, cause: Cause, fills: tuple[int, ...]
) -> None:
    found = cause_of(shape_of(text))
    assert found == cause
    assert found.sizes_that_fill == fills


@pytest.mark.parametrize(
    "text", ["f32[8,128]{1,0:T(8,128)}", "s4[1024]{0:T(1024)E(4)}", "f32[1000,3]{1,0}", "f32[0,3]{1,0}"]
)  # fmt: skip
def test_what_fills_its_tiles_or_has_none_has_no_cause(text: str) -> None:
    assert cause_of(shape_of(text)) is None
    assert padding_of(shape_of(text)).rows == ()


def test_an_argument_has_the_users_name_and_its_tree_is_the_place() -> None:
    space = padding_of(shape_of("f32[8,3]{1,0:T(8,128)}"))
    assert [row.item.name for row in space.rows] == ["params[0]"]


def test_a_size_that_the_layout_does_not_explain_is_told_apart() -> None:
    space = padding_of(shape_of("f32[8,3]{1,0:T(8,128)}"), extra_bytes=1024)
    assert (space.wasted_bytes, space.unexplained_bytes) == (4000, 1024)
    assert [row.unexplained_bytes for row in space.rows] == [1024]
    assert [item.name for item in space.unexplained] == ["params[0]"]


shapes = st.lists(st.integers(1, 300), max_size=4).flatmap(
    lambda dims: st.builds(
        ArrayShape,
        st.sampled_from([ElementType.F32, ElementType.BF16, ElementType.PRED, ElementType.S4]),
        st.just(tuple(dims)),
        st.builds(
            Layout,
            st.permutations(range(len(dims))).map(tuple),
            st.lists(
                st.lists(st.sampled_from([1, 2, 4, 8, 128, 1024]), min_size=1, max_size=3).map(tuple),
                max_size=2,
            ).map(tuple),
            st.sampled_from([0, 0, 8]),
        ),
    )
)  # fmt: skip
NARROWED = {ElementType.F32, ElementType.BF16}  # in layouts whose elements have 8 bits


def is_real(shape: ArrayShape) -> bool:
    return not (shape.layout.element_bits and shape.element_type in NARROWED)


@given(st.lists(shapes.filter(is_real), min_size=1, max_size=6), st.sampled_from([0, 512]))
def test_elements_padding_and_the_rest_are_all_that_is_alive(found: list[ArrayShape], extra: int) -> None:  # fmt: skip
    space = padding_of(*found, extra_bytes=extra)
    parts = (
        space.logical_bytes, space.wasted_bytes, space.unexplained_bytes, space.not_array_bytes,
    )  # fmt: skip
    assert sum(parts) == space.peak_bytes
    assert sum(row.wasted_bytes for row in space.rows) == space.wasted_bytes
    assert len(space.unexplained) == (len(found) if extra else 0)


@given(st.lists(shapes.filter(is_real), min_size=1, max_size=6))
def test_only_what_pads_has_a_row_and_the_blame_is_on_what_really_pads(
    found: list[ArrayShape],
) -> None:
    space = padding_of(*found)
    names = {row.item.name for row in space.rows}
    for n, shape in enumerate(found):
        assert (f"params[{n}]" in names) == (shape.padded_bytes > shape.logical_bytes)
    for row in space.rows:
        blame_is_right(row)
    assert list(space.rows) == sorted(space.rows, key=lambda r: (-r.wasted_bytes, r.item.name))


def blame_is_right(row: PaddedItem) -> None:
    cause = row.cause
    assert row.wasted_bytes > 0
    assert row.logical_bytes + row.wasted_bytes == row.padded_bytes
    assert cause.padded > cause.size
    assert 0 < row.caused_bytes <= row.padded_bytes
    if cause.dimension is not None:
        assert row.shape.dims[cause.dimension] == cause.size
        assert row.padded_dims[cause.dimension] == cause.padded
        for size in cause.sizes_that_fill:
            dims = list(row.shape.dims)
            dims[cause.dimension] = size
            filled = ArrayShape(row.shape.element_type, tuple(dims), row.shape.layout)
            remaining = cause_of(filled)
            assert remaining is None or remaining.dimension != cause.dimension
    others = [
        after / before
        for before, after in zip(row.shape.dims, row.padded_dims, strict=True)
    ]  # fmt: skip
    assert cause.factor >= max(others, default=1)


def test_every_measured_tiling_is_its_elements_and_its_padding() -> None:
    rows = TILINGS.read_text().splitlines()
    for line in rows:
        element_type, dims, layout, size = line.split("\t")
        shape = ArrayShape(
            ElementType[element_type],
            tuple(int(n) for n in dims.split(",") if n),
            parse_layout(layout),
        )
        space = padding_of(shape)
        assert space.logical_bytes + space.wasted_bytes == int(size), line
        assert space.unexplained_bytes == 0
        assert bool(space.rows) == (int(size) > shape.logical_bytes)


def test_the_layouts_of_public_reports_pad_as_they_say() -> None:
    case = load_case("pad-layouts-b")
    found = [shape_of(t) for t in case.program.with_name("input.txt").read_text().split()]
    known = zip(case.expected["padded_bytes"], case.expected["unpadded_bytes"], strict=True)
    wasted = {f"params[{n}]": padded - logical for n, (padded, logical) in enumerate(known)}
    rows = padding_of(*found).rows
    assert {row.item.name: row.wasted_bytes for row in rows} == {
        k: w for k, w in wasted.items() if w
    }


def padding_of_case(bench: Bench, name: str) -> SpacePadding:
    """The HBM padding of a case's `step`, from what the compiler left in a recording."""
    case = load_case(name)
    run = bench.run(COMPILE, str(case.program), "step", on=case.topology)
    assert run.exit_code == 0, run.stderr
    recording = load_recording(run.recording_path)
    (program,) = (p for p in recording.programs if p.name == "jit_step")
    memory = memory_of(program, recording.run)
    assert memory
    return analyse_padding(analyse_memory(memory))[0]


def test_one_hot_classes_pad_to_whole_sublanes(bench: Bench) -> None:
    space = padding_of_case(bench, "pad-one-hot-classes")
    expected = load_case("pad-one-hot-classes").expected
    arrays = [row for row in space.rows if row.shape.dims == (16777216, 12)]
    assert {row.item.name for row in arrays} >= {"logits"}
    for row in arrays:
        assert row.padded_bytes == expected["one_hot_bytes"]
        assert row.logical_bytes == expected["unpadded_bytes"]
        assert row.factor == pytest.approx(expected["padding_factor"], abs=0.001)
        assert row.cause == Cause(PaddingKind.SECOND_MINOR, 1, 12, 16, 8)
        assert row.cause.sizes_that_fill == (8, 16)
        row_major = parse_layout("{1,0:T(8,128)}")
        factor = padded_bytes(ElementType.F32, row.shape.dims, row_major) / row.logical_bytes
        assert factor == pytest.approx(expected["row_major_factor"], abs=0.001)


def test_gathered_indices_are_compact(bench: Bench) -> None:
    space = padding_of_case(bench, "pad-gather-indices")
    assert space.unexplained_bytes == 0
    assert (space.logical_bytes + space.wasted_bytes) / space.logical_bytes == pytest.approx(
        1, abs=1e-4
    )
    assert all(row.logical_bytes < 1024 for row in space.rows)  # scalars alone
