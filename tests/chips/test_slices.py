"""What a slice says of itself: counts, hosts, wraps, options of the compiler, one line."""

from __future__ import annotations

import pickle
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.chips import (
    Generation,
    Slice,
    all_generations,
    all_slices,
    generation_named,
    machines_for,
    parse_slice,
    slice_of,
    slices_of,
)
from vtpu.chips.shapes import num_hosts_with, refusal

MULTIPLES_OF_FOUR = st.integers(1, 70).map(lambda cubes: 4 * cubes)
THREE_AXES = [generation for generation in all_generations() if generation.num_axes == 3]


@pytest.mark.parametrize(
    ("chips", "devices", "hosts", "name"),
    [
        (1, 1, 1, "v5e-1"),
        (4, 4, 1, "v5e-4"),
        (8, 8, 1, "v5e-8"),
        (16, 16, 4, "v5e-16"),
        (256, 256, 64, "v5e-256"),
        (8, 8, 1, "v6e-8"),
        (4, 8, 1, "v2-8"),
        (32, 64, 8, "v3-64"),
        (4, 4, 1, "v4-8"),
        (64, 64, 16, "v5p-128"),
        (1, 2, 1, "tpu7x-2"),
        (4, 8, 1, "tpu7x-8"),
        (32, 32, 8, "2*v5e-16"),
        (16, 16, 2, "2*v5e-8"),
    ],
)
def test_chips_devices_and_hosts_are_those_of_cloud(
    chips: int, devices: int, hosts: int, name: str
) -> None:
    found = parse_slice(name)
    assert (chips, devices, hosts) == (found.num_chips, found.num_devices, found.num_hosts)


@pytest.mark.parametrize("found", all_slices(), ids=str)
def test_devices_are_devices_per_host_times_hosts(found: Slice) -> None:
    assert found.num_devices == found.devices_per_host * found.num_hosts
    assert found.num_chips == found.chips_per_host * found.num_hosts
    assert all(c % h == 0 for c, h in zip(found.bounds, found.host_bounds, strict=True))


@pytest.mark.parametrize("found", all_slices(), ids=str)
def test_the_size_in_the_name_counts_the_unit_of_the_generation(found: Slice) -> None:
    assert found.accelerator_type
    size = int(found.accelerator_type.rpartition("-")[2])
    assert size == found.num_chips * found.generation.counts_per_chip


@pytest.mark.parametrize("found", all_slices(), ids=str)
def test_a_slice_has_its_machine_and_no_more_chips_than_its_pod(found: Slice) -> None:
    assert num_hosts_with(found.machine, found.topology) == found.num_hosts
    assert found.num_chips <= found.generation.pod.max_chips.value


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        ((False, False, False), "v5e:8x8"),
        ((False, True, False), "v5e:8x16"),
        ((True, True, False), "v5e:16x16"),
        ((False, True, False), "v2:8x16"),
        ((False, False, False), "v3:16x16"),
        ((True, True, False), "v3:32x32"),
        ((False, False, False), "v5p:2x4x4"),
        ((True, True, True), "v5p:4x4x4"),
        ((True, True, True), "v4:8x16x16"),
    ],
)
def test_a_torus_wraps_on_full_edges_or_in_whole_cubes(
    wrap: tuple[bool, bool, bool], name: str
) -> None:
    assert wrap == parse_slice(name).wrap


def test_the_options_of_libtpu_name_config_hosts_slices_and_wraps() -> None:
    assert parse_slice("3*v4-128").libtpu_options == {
        "chip_config_name": "megacore",
        "chips_per_host_bounds": [2, 2, 1],
        "num_slices": 3,
        "wrap": [True, True, True],
    }


def test_a_slice_without_wraps_leaves_them_to_libtpu() -> None:
    assert "wrap" not in parse_slice("v5e-8").libtpu_options


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("v5p-128 = v5p:4x4x4, 64 chips, 16 hosts", "v5p:4x4x4"),
        ("v5e-1 = v5e:1x1, 1 chip, 1 host", "v5litepod-1"),
        ("tpu7x-8 = tpu7x:2x2x1, 4 chips, 8 devices, 1 host", "ironwood-8"),
        ("2*v5e-16 = 2*v5e:4x4, 2 slices, 32 chips, 8 hosts", "v5e-16*2"),
        ("v5p:4x8x16, 512 chips, 128 hosts", "v5p:4x8x16"),
        ("ct5lp-hightpu-4t:2x4 = v5e:2x4, 8 chips, 2 hosts", "ct5lp-hightpu-4t:2x4"),
        ("v5p-17920 = v5p:16x20x28, 8,960 chips, 2,240 hosts", "v5p-17920"),
    ],
)
def test_the_description_repeats_what_was_understood(line: str, name: str) -> None:
    assert line == parse_slice(name).describe()


def test_every_dialect_is_among_the_aliases() -> None:
    assert parse_slice("v5e-16").aliases == (
        "v5e:4x4",
        "v5e-16",
        "v5litepod-16",
        "v5lite-16",
        "v5litepod:4x4",
        "v5lite:4x4",
        "v5e-4x4",
        "v5litepod-4x4",
        "v5lite-4x4",
        "tpu-v5-lite-podslice:4x4",
        "ct5lp-hightpu-4t:4x4",
    )


def test_the_names_that_can_be_had_are_counted() -> None:
    sizes = {generation.name: len(slices_of(generation)) for generation in all_generations()}
    assert sizes == {"v2": 5, "v3": 8, "v4": 12, "v5e": 8, "v5p": 96, "v6e": 8, "tpu7x": 99}


@given(
    st.sampled_from(THREE_AXES), st.tuples(MULTIPLES_OF_FOUR, MULTIPLES_OF_FOUR, MULTIPLES_OF_FOUR)
)
def test_whole_cubes_in_ascending_order_are_slices_up_to_the_pod(
    generation: Generation, axes: tuple[int, int, int]
) -> None:
    fits = prod(axes) <= generation.pod.max_chips.value and max(axes) <= 256
    legal = fits and tuple(sorted(axes)) == axes
    assert legal == (refusal(generation, axes) is None)


@given(st.sampled_from(all_generations()), st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_what_is_not_refused_can_be_built_and_stays_within_the_pod(
    generation: Generation, axes: list[int]
) -> None:
    topology = tuple(axes)
    if refusal(generation, topology) is None:
        found = slice_of(generation, topology)
        assert 1 <= found.num_chips <= generation.pod.max_chips.value
    else:
        with pytest.raises(ValueError, match=r"."):
            slice_of(generation, topology)


def test_a_machine_that_does_not_host_the_shape_is_refused() -> None:
    v5e = generation_named("v5e")
    eight = next(machine for machine in v5e.machines if machine.chips == 8)
    with pytest.raises(ValueError, match="does not host 4x4"):
        slice_of(v5e, (4, 4), machine=eight)


def test_the_usual_machine_needs_the_fewest_hosts() -> None:
    machines = machines_for(generation_named("v6e"), (2, 4))
    assert [8, 4] == [machine.chips for machine in machines]


def test_a_slice_is_a_value_that_can_be_hashed_and_sent_to_a_worker() -> None:
    found = parse_slice("2*v5p-128")
    copy = pickle.loads(pickle.dumps(found))
    assert found == copy
    assert {found: 1}[copy] == 1
