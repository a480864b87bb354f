"""Names of slices: examples of each dialect, refusals with their reasons, laws for all names."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vtpu.chips import (
    Slice,
    UnknownSlice,
    all_generations,
    all_slices,
    machines_for,
    nearest,
    parse_generation,
    parse_slice,
    slice_of,
)
from vtpu.chips.dialects import words
from vtpu.chips.names import MAX_CHARACTERS, MAX_NUM_SLICES
from vtpu.errors import UsageError

CUBES = tuple(
    slice_of(generation, topology)
    for generation in all_generations()
    if generation.num_axes == 3
    for topology in ((4, 4, 16), (4, 8, 16), (12, 16, 16))
)
"""Slices of whole cubes; Cloud has a name with a size for only some of them."""

ON_UNUSUAL_HOSTS = tuple(
    slice_of(found.generation, found.topology, machine=machine)
    for found in all_slices()
    for machine in machines_for(found.generation, found.topology)
    if machine.bounds != found.host_bounds
)


def several(found: Slice, num_slices: int) -> Slice:
    machine = found.machine
    return slice_of(found.generation, found.topology, machine=machine, num_slices=num_slices)


ANY_SLICE = st.builds(
    several,
    st.sampled_from((*all_slices(), *CUBES, *ON_UNUSUAL_HOSTS)),
    st.integers(1, MAX_NUM_SLICES),
)


@pytest.mark.parametrize(
    ("canonical", "text"),
    [
        ("v5e:4x4", "v5e-16"),
        ("v5e:4x4", "v5litepod-16"),
        ("v5e:4x4", "v5lite-16"),
        ("v6e:2x4", "v6e-8"),
        ("v6e:2x4", "trillium-8"),
        ("v2:2x2", "v2-8"),
        ("v3:2x2", "v3-8"),
        ("v3:4x8", "v3-64"),
        ("v4:2x2x1", "v4-8"),
        ("v5p:4x4x4", "v5p-128"),
        ("tpu7x:2x2x1", "tpu7x-8"),
        ("tpu7x:2x2x1", "v7x-8"),
        ("tpu7x:2x2x1", "ironwood-8"),
        ("tpu7x:1x1x1", "tpu7x-2"),
        ("v6e:2x4", "tpu-v6e-8"),
        ("v4:2x2x1", "TPU v4-8"),
    ],
)
def test_cloud_names_count_what_the_generation_counts(canonical: str, text: str) -> None:
    assert canonical == parse_slice(text).name


@pytest.mark.parametrize(
    ("canonical", "text"),
    [
        ("v5e:4x4", "v5e:4x4"),
        ("v5e:4x4", "v5litepod:4x4"),
        ("v5e:4x4", "v5e=4x4"),
        ("v5e:4x4", "v5e_4x4"),
        ("v5e:4x4", "v5litepod-4x4"),
        ("v5p:2x2x1", "v5p:2x2x1"),
        ("v5p:8x8x8", "v5p:8x8x8"),
        ("v5p:4x8x16", "v5p:4x8x16"),
        ("v4:2x2x1", "v4:2x2x1"),
        ("tpu7x:2x2x1", "tpu7x:2x2x1"),
    ],
)
def test_a_topology_names_a_slice(canonical: str, text: str) -> None:
    assert canonical == parse_slice(text).name


@pytest.mark.parametrize(
    ("canonical", "text"),
    [
        ("v5e:4x4", "v5e:4x4x1"),
        ("v5p:2x2x1", "v5p:2x2"),
        ("v5p:2x2x1", "v5:2x2x1"),
        ("v5p:4x4x8", "v5p:4x4x8_untwisted"),
    ],
)
def test_what_libtpu_writes_differently_is_understood(canonical: str, text: str) -> None:
    assert canonical == parse_slice(text).name


@pytest.mark.parametrize(
    ("canonical", "text"),
    [
        ("v5e:4x4", "tpu-v5-lite-podslice:4x4"),
        ("v5e:4x4", "tpu-v5-lite-podslice + 4x4"),
        ("v5e:4x4", "tpu-v5-lite-podslice 4x4"),
        ("v5e:4x4", "tpu-v5-lite-podslice/4x4"),
        ("v5e:4x4", "tpu-v5-lite-podslice=4x4"),
        ("v5e:2x4", "tpu-v5-lite-device:2x4"),
        ("v6e:2x4", "tpu-v6e-slice:2x4"),
        ("v5p:4x4x4", "tpu-v5p-slice:4x4x4"),
        ("v4:2x2x4", "tpu-v4-podslice:2x2x4"),
        ("v3:2x2", "tpu-v3-device:2x2"),
        ("v3:4x4", "tpu-v3-slice:4x4"),
    ],
)
def test_a_gke_accelerator_and_a_topology_name_a_slice(canonical: str, text: str) -> None:
    assert canonical == parse_slice(text).name


@pytest.mark.parametrize(
    ("canonical", "text"),
    [
        ("v5e:4x4", "ct5lp-hightpu-4t:4x4"),
        ("v5e:1x1", "ct5lp-hightpu-1t"),
        ("v5e:2x2", "ct5lp-hightpu-4t"),
        ("v5e:2x4", "ct5lp-hightpu-8t"),
        ("v5p:4x4x4", "ct5p-hightpu-4t 4x4x4"),
        ("v6e:2x4", "ct6e-standard-8t"),
        ("v4:2x2x1", "ct4p-hightpu-4t"),
        ("v3:2x2", "ct3-hightpu-4t"),
        ("tpu7x:2x2x1", "tpu7x-standard-4t"),
        ("tpu7x:4x4x4", "tpu7x-standard-4t:4x4x4"),
    ],
)
def test_a_machine_type_alone_is_one_host_of_its_chips(canonical: str, text: str) -> None:
    assert canonical == parse_slice(text).name


@pytest.mark.parametrize(
    "text",
    ["2*v5e-16", "2xv5e-16", "v5e-16*2", "2 \N{MULTIPLICATION SIGN} v5e:4x4", "2 * v5lite-16"],
)
def test_several_slices_are_written_as_a_product(text: str) -> None:
    found = parse_slice(text)
    assert ("2*v5e:4x4", 2, 32, 8) == (
        found.name,
        found.num_slices,
        found.num_devices,
        found.num_hosts,
    )


def test_case_and_surrounding_blanks_do_not_matter() -> None:
    assert parse_slice("v5litepod-16") == parse_slice("\t V5LitePod-16 \n")


def test_eight_chips_on_machines_of_four_are_two_hosts_and_keep_their_name() -> None:
    found = parse_slice("ct5lp-hightpu-4t:2x4")
    assert ("ct5lp-hightpu-4t:2x4", 2, (2, 2, 1)) == (
        found.name,
        found.num_hosts,
        found.host_bounds,
    )
    assert parse_slice("v5e-8") != found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("v5p-1", "v5p has no slice of 1 TensorCore"),
        ("tpu7x-1", "tpu7x has no slice of 1 device"),
    ],
)
def test_one_is_in_the_singular(text: str, reason: str) -> None:
    with pytest.raises(UnknownSlice) as caught:
        parse_slice(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("reason", "near", "text"),
    [
        ("v5e has no slice of 7 chips", ("v5e-4", "v5e-8"), "v5e-7"),
        ("v5p has no slice of 9 TensorCores", ("v5p-8", "v5p-16"), "v5p-9"),
        ("v5e has no slice of 512 chips", ("v5e-256",), "v5e-512"),
        ("3x3 is not a slice shape of v5e", ("v5e:2x4", "v5e:4x4"), "v5e:3x3"),
        ("1x1x1 is not a slice shape of v5p", ("v5p:2x2x1",), "v5p:1x1x1"),
        ("every axis a multiple of 4", ("v5p:4x4x4", "v5p:4x4x8"), "v5p:4x4x6"),
        (
            "1,024 chips are more than a pod of v5e has, 256",
            ("v5e:16x16", "4*v5e:16x16"),
            "v5e:32x32",
        ),
        ("v5e:4x2 is v5e:2x4 turned", ("v5e:2x4",), "v5e:4x2"),
        ("v4:8x4x4 is v4:4x4x8 turned", ("v4:4x4x8",), "v4:8x4x4"),
        ("the torus of v5e has 2 axes", ("v5e:8x8", "v5e:8x16"), "v5e:4x4x4"),
        ("vtpu has no twisted torus", ("v5p:4x4x8",), "v5p:4x4x8_twisted"),
        ("tpu-v5-lite-device does not host a slice of 4x4", None, "tpu-v5-lite-device:4x4"),
        (
            "ct5lp-hightpu-8t does not host a slice of 4x4",
            ("ct5lp-hightpu-8t:2x4",),
            "ct5lp-hightpu-8t:4x4",
        ),
        ("a topology is missing", None, "ct3p-hightpu-4t"),
        ("a size or topology is missing", None, "v5e"),
        ("a topology follows tpu-v6e-slice, not a size", None, "tpu-v6e-slice-8"),
        ("a topology follows v5, not a size", None, "v5-16"),
        ("'4xx4' is neither a size nor a topology", None, "v5e:4xx4"),
        ("starts with no TPU generation", ("v5litepod-16", "v5lite-16"), "v5litpod-16"),
        ("starts with no TPU generation", (), "h100-8"),
        ("there can be 1 to 256 slices, not 0", (), "0*v5e-16"),
        ("there can be 1 to 256 slices, not 257", (), "257*v5e-16"),
        ("it is empty", (), "  "),
        ("more than 100 characters", (), "v5e" + " " * MAX_CHARACTERS + ":4x4"),
    ],
)
def test_a_refusal_says_why_and_what_is_near(
    reason: str, near: tuple[str, ...] | None, text: str
) -> None:
    with pytest.raises(UnknownSlice) as caught:
        parse_slice(text)
    assert reason in caught.value.reason
    assert near is None or near == caught.value.nearest
    assert near != () or not caught.value.nearest


def test_the_message_holds_the_text_the_reason_the_near_names_and_the_slug() -> None:
    with pytest.raises(UsageError) as caught:
        parse_slice("v5e-7")
    assert str(caught.value) == (
        "'v5e-7' is not a TPU slice: v5e has no slice of 7 chips. Nearest: v5e-4, v5e-8."
        " `vtpu slices` lists every name. [unknown-slice]"
    )


def test_a_refusal_survives_the_way_between_processes() -> None:
    error = UnknownSlice("v5e-7", "no such size", ("v5e-4",))
    assert str(error) == str(pickle.loads(pickle.dumps(error)))


@pytest.mark.parametrize(
    ("canonical", "text"), [("v5e", " V5litepod"), ("tpu7x", "ironwood"), ("v6e", "trillium")]
)
def test_a_generation_is_known_by_each_of_its_names(canonical: str, text: str) -> None:
    assert canonical == parse_generation(text).name


def test_an_unknown_generation_is_refused_with_near_names() -> None:
    with pytest.raises(UnknownSlice) as caught:
        parse_generation("v5x")
    assert "v5e" in caught.value.nearest


@pytest.mark.parametrize("found", [*all_slices(), *CUBES, *ON_UNUSUAL_HOSTS], ids=str)
def test_every_alias_names_its_slice(found: Slice) -> None:
    assert found.name == found.aliases[0]
    assert {found} == {parse_slice(alias) for alias in found.aliases}


@given(ANY_SLICE, st.data())
def test_parsing_any_alias_in_any_case_gives_the_slice_again(
    found: Slice, data: st.DataObject
) -> None:
    alias = data.draw(st.sampled_from(found.aliases))
    blanks = st.text(" \t\n", max_size=3)
    written = data.draw(st.sampled_from((alias, alias.upper(), alias.title())))
    assert found == parse_slice(data.draw(blanks) + written + data.draw(blanks))


@given(ANY_SLICE)
def test_the_canonical_name_is_a_fixed_point(found: Slice) -> None:
    assert found.name == parse_slice(found.name).name


def test_no_alias_names_two_slices() -> None:
    slices = (*all_slices(), *ON_UNUSUAL_HOSTS)
    aliases = [alias for found in slices for alias in found.aliases]
    assert len(set(aliases)) == len(aliases)


def slice_or_refusal(text: str) -> Slice | UnknownSlice:
    try:
        return parse_slice(text)
    except UnknownSlice as unknown:
        return unknown


PIECES = st.one_of(
    st.sampled_from([word.text for word in words()]),
    st.sampled_from([*" :=/+,-_*x\N{MULTIPLICATION SIGN}", "_twisted", "tpu-", "TPU "]),
    st.sampled_from(["4x4", "2x2x1", "4x4x8", "2x4", "2*"]),
    st.integers(0, 10**7).map(str),
    st.text(max_size=5),
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=8).map("".join)))
def test_any_text_is_a_slice_or_an_unknown_slice(text: str) -> None:
    answer = slice_or_refusal(text)
    if isinstance(answer, UnknownSlice):
        assert text == answer.text
        assert "[unknown-slice]" in str(answer)
        assert answer.nearest == nearest(text)
    else:
        assert answer == parse_slice(answer.name)


@given(st.lists(PIECES, max_size=8).map("".join))
@example("ironwood:4x4_twisted")
def test_every_name_called_near_is_a_name(text: str) -> None:
    for name in nearest(text):
        assert parse_slice(name)
