"""Bytes, seconds and counts as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.units import GIB, counted, format_bytes, format_count, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1024, "1.00 KiB"),
        (16_909_332_480, "15.75 GiB"),
        (3 * GIB // 2, "1.50 GiB"),
        (-2048, "-2.00 KiB"),
        (3 << 59, "1.50 EiB"),
    ],
)
def test_sizes_are_shown_in_binary_units_with_two_decimals(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("14.5 GiB", 15_569_256_448),
        ("14.5G", 15_569_256_448),
        ("900MB", 900_000_000),
        ("512", 512),
        ("1_024", 1024),
        ("2 TiB", 1 << 41),
    ],
)
def test_sizes_that_people_write_are_understood(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "12 parsecs", "-3G", "1.2.3"])
def test_what_is_not_a_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"14\.5GiB"):
        parse_bytes(text)


@given(st.integers(0, 1 << 50))
def test_a_whole_number_of_bytes_is_read_back_exactly(size):
    assert parse_bytes(str(size)) == size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(80, "1 min 20 s"), (2.345, "2.35 s"), (0.012, "12.0 ms"), (8.1e-6, "8.1 µs")],
)
def test_durations_are_shown_in_the_unit_that_fits(seconds, text):
    assert format_seconds(seconds) == text


def test_large_counts_have_their_thousands_apart():
    assert format_count(1234567) == "1,234,567"


def test_one_thing_is_named_in_the_singular():
    assert [counted(n, "device") for n in (0, 1, 1024)] == [
        "0 devices",
        "1 device",
        "1,024 devices",
    ]
