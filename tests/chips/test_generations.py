"""The data of the generations: complete, sourced, of the right types, and quick to import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

import vtpu.chips
from vtpu.chips import Chip, Claim, Figure, Generation, Links, Machine, Pod, Torus, all_generations
from vtpu.chips.figures import figure_of
from vtpu.chips.generations import GENERATION_NAMES, generation_named

FILES = Path(vtpu.chips.__file__).with_name("generations")
EACH_GENERATION = pytest.mark.parametrize("generation", all_generations(), ids=lambda g: g.name)
Group = Chip | Links | Torus | Pod | Machine


def groups_of(generation: Generation) -> list[Group]:
    return [
        generation.chip,
        generation.links,
        generation.torus,
        generation.pod,
        *generation.machines,
    ]


def named_figures_of(group: Group) -> list[tuple[str, Figure[Any]]]:
    pairs = [(field.name, getattr(group, field.name)) for field in dataclasses.fields(group)]
    return [(name, value) for name, value in pairs if isinstance(value, Figure)]


def figures_of(generation: Generation) -> list[Figure[Any]]:
    named = [pair for group in groups_of(generation) for pair in named_figures_of(group)]
    peaks = [peak.flops_per_s for peak in generation.chip.peaks]
    return [*peaks, *(figure for _, figure in named)]


def test_there_is_one_file_for_each_generation_named_like_it() -> None:
    assert sorted(GENERATION_NAMES) == sorted(path.stem for path in FILES.glob("*.toml"))
    assert tuple(generation.name for generation in all_generations()) == GENERATION_NAMES


@EACH_GENERATION
def test_every_figure_has_a_source_that_exists(generation: Generation) -> None:
    known = {source.id for source in generation.sources}
    for figure in figures_of(generation):
        assert figure.sources
        assert set(figure.sources) <= known
    assert generation.slices_source in known


@EACH_GENERATION
def test_every_source_is_used_and_explained(generation: Generation) -> None:
    used = {source for figure in figures_of(generation) for source in figure.sources}
    assert used | {generation.slices_source} == {source.id for source in generation.sources}
    assert all(len(source.text) > 10 for source in generation.sources)


@EACH_GENERATION
def test_every_figure_has_the_type_that_its_field_declares(generation: Generation) -> None:
    for group in groups_of(generation):
        hints = typing.get_type_hints(type(group))
        for name, figure in named_figures_of(group):
            declared = hints[name]
            if type(None) in typing.get_args(declared):
                declared = next(a for a in typing.get_args(declared) if a is not type(None))
            (kind,) = typing.get_args(declared)
            assert {kind} == {type(claim.value) for claim in figure.claims}, name


@EACH_GENERATION
def test_only_the_absence_of_cmem_is_a_zero(generation: Generation) -> None:
    for group in groups_of(generation):
        for name, figure in named_figures_of(group):
            if isinstance(figure.value, int | float) and name != "cmem_bytes":
                assert figure.lowest > 0, name


@EACH_GENERATION
def test_values_that_sources_give_for_one_figure_are_of_one_size(generation: Generation) -> None:
    for figure in figures_of(generation):
        if isinstance(figure.lowest, int | float) and isinstance(figure.highest, int | float):
            assert figure.highest <= 2 * figure.lowest


@EACH_GENERATION
def test_the_limit_of_the_compiler_is_below_the_memory_of_the_device(
    generation: Generation,
) -> None:
    chip = generation.chip
    bytes_per_device = chip.hbm_bytes.highest / chip.xla_devices_per_chip.value
    assert chip.hbm_limit_gib_per_device.value * 2**30 < bytes_per_device * 1.01


@EACH_GENERATION
def test_the_machines_have_as_many_chips_as_their_bounds(generation: Generation) -> None:
    for machine in generation.machines:
        x, y, z = machine.bounds
        assert machine.chips == x * y * z


@EACH_GENERATION
def test_shapes_ascend_in_size_and_have_the_axes_of_the_torus(generation: Generation) -> None:
    sizes = [shape.size for shape in generation.shapes]
    assert sizes == sorted(set(sizes))
    assert {generation.num_axes} == {len(shape.topology) for shape in generation.shapes}


@EACH_GENERATION
def test_no_file_holds_a_price_or_a_power(generation: Generation) -> None:
    table = tomllib.loads((FILES / f"{generation.name}.toml").read_text())
    assert not any("price" in key or "power" in key for key in table)


def test_a_figure_keeps_both_ends_where_sources_disagree() -> None:
    bandwidth = generation_named("v5p").chip.hbm_bandwidth_bytes_per_s
    assert (2_460_000_000_000, 2_765_000_000_000) == (bandwidth.lowest, bandwidth.highest)
    assert Claim(value=2_765_000_000_000, source="docs") == bandwidth.claims[0]


def test_a_peak_that_no_source_gives_is_unknown_and_not_zero() -> None:
    v2 = generation_named("v2")
    assert v2.chip.peak_flops_per_s("int8") is None
    peak = v2.chip.peak_flops_per_s("bf16")
    assert peak
    assert peak.value == 46_000_000_000_000


def test_a_figure_without_a_source_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="source"):
        figure_of({})


def test_an_unknown_generation_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        generation_named("v9")


@pytest.mark.parametrize("module", ["jax", "numpy", "tomllib"])
def test_importing_the_room_imports_neither_jax_nor_numpy(module: str) -> None:
    code = f"import sys, vtpu.chips; sys.exit({module!r} in sys.modules)"
    expected = 1 if module == "tomllib" else 0  # tomllib shows that the test can fail
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == expected
