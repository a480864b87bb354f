"""The protobuf wire format."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.reading import wire

numbers = st.integers(1, 5000)
values = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=40))
messages = st.lists(st.tuples(numbers, values), max_size=12)


def encode(fields):
    return b"".join(wire.write_field(number, value) for number, value in fields)


def decode(data):
    return [(n, v if isinstance(v, int) else bytes(v)) for n, v in wire.read_fields(data)]


@given(messages)
def test_what_is_written_is_read_back(fields):
    assert decode(encode(fields)) == fields


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_survive(number):
    (value,) = wire.find_ints(wire.write_field(1, number), 1)
    assert value == number


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_repeated_numbers_are_read_packed_or_not(items):
    packed = wire.write_field(7, b"".join(map(wire.write_varint, items)))
    apart = b"".join(wire.write_field(7, item) for item in items)
    assert wire.find_ints(packed, 7) == wire.find_ints(apart, 7) == items


@given(messages, st.data())
def test_a_cut_message_gives_a_beginning_of_its_fields_or_an_error(fields, data):
    whole = encode(fields)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        found = decode(cut)
    except wire.WireError:
        return
    assert found == fields[: len(found)]


@given(st.binary())
def test_bytes_of_anything_else_raise_nothing_but_a_wire_error(data):
    with contextlib.suppress(wire.WireError):
        decode(data)


@given(messages, numbers, st.binary(max_size=10))
def test_replacing_a_field_leaves_all_others_alone(fields, number, new):
    replaced = decode(wire.replace(encode(fields), number, lambda _: new))
    expected = [(n, new if n == number and isinstance(v, bytes) else v) for n, v in fields]
    assert replaced == expected


def test_fixed_width_fields_pass_through_unchanged():
    message = bytes([1 << 3 | 1]) + b"\1\0\0\0\0\0\0\2" + bytes([2 << 3 | 5]) + b"\3\0\0\0"
    assert wire.replace(message, 9, bytes) == message
    assert decode(message) == [(1, 2**57 + 1), (2, 3)]


def test_an_absent_field_is_none_and_reads_as_empty():
    assert wire.find(b"", 1) is None
    assert wire.find_int(b"", 1) == 0
    assert wire.find_text(b"", 1) == ""


def test_a_number_that_does_not_end_is_refused():
    with pytest.raises(wire.WireError):
        decode(b"\x08\xff")
