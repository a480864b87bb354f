"""Profiles (XSpace): written, read back, cut, damaged; jaxlib's own reader is the oracle."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtpu.reading import wire
from vtpu.reading.message_columns import (
    constant,
    doubles,
    message_field,
    read_messages,
    texts,
    varint_field,
    varints,
)
from vtpu.reading.xplane.reading import read_space
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, Space, StatColumn
from vtpu.reading.xplane.writing import encode_space

ids = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**62)
names = st.text(max_size=12)
doubles_ = st.floats(allow_nan=False)
stat_values = st.one_of(st.integers(-(2**63), 2**64 - 1), doubles_, names, st.binary(max_size=12))
stats = st.dictionaries(names, stat_values, max_size=4)


def array(values, dtype):
    made = np.empty(len(values), dtype)
    made[:] = values
    return made


@st.composite
def columns(draw, count):
    rows = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
    kind, values = draw(
        st.sampled_from(
            [
                (np.int64, ids),
                (np.uint64, st.integers(0, 2**64 - 1)),
                (np.float64, doubles_),
                (object, names),
                (object, st.binary(max_size=9)),
            ]
        )
    )
    drawn = draw(st.lists(values, min_size=len(rows), max_size=len(rows)))
    return StatColumn(draw(names), array(rows, np.int64), array(drawn, kind))


@st.composite
def events(draw):
    count = draw(st.integers(0, 6))
    three = [draw(st.lists(n, min_size=count, max_size=count)) for n in (ids, times, times)]
    found = draw(st.lists(columns(count), max_size=3)) if count else []
    kinds = {(c.name, c.values.dtype.str, type(c.values[0])): c for c in found}
    return Events(*(array(n, np.int64) for n in three), stats=tuple(kinds.values()))


lines = st.builds(Line, id=ids, name=names, began_ns=ids, events=events())
metadata = st.builds(
    EventMetadata,
    name=names,
    display_name=names,
    stats=stats,
    children=st.lists(ids, max_size=3).map(tuple),
)
planes = st.builds(
    Plane,
    id=ids,
    name=names,
    lines=st.lists(lines, max_size=3).map(tuple),
    metadata=st.dictionaries(ids, metadata, max_size=3),
    stats=stats,
)
texts_ = st.lists(names, max_size=2).map(tuple)
spaces = st.builds(
    Space,
    planes=st.lists(planes, max_size=3).map(tuple),
    errors=texts_,
    warnings=texts_,
    hostnames=texts_,
)


def small_space():
    rows = np.arange(3)
    step = Line(
        id=1,
        name="XLA Ops",
        began_ns=1_000,
        events=Events(
            np.array([7, 8, 7]),
            np.array([0, 50, 90]) * 1000,
            np.array([50, 40, 50]) * 1000,
            (
                StatColumn("run_id", rows, np.array([1, 1, 2])),
                StatColumn("scope", rows[:2], array(["a", "b"], object)),
            ),
        ),
    )
    plane = Plane(
        id=2,
        name="/device:TPU:0",
        lines=(step, replace(step, id=2, name="Async XLA Ops")),
        metadata={
            7: EventMetadata(name="%fusion.7 = f32[8]", display_name="fusion.7",
                             stats={"flops": 12, "hlo_category": "loop fusion"}),
            8: EventMetadata(name="copy.8", stats={"share": 0.5, "raw": b"\1"}),
        },
        stats={"device_type_string": "TPU v5 lite", "peak_teraflops_per_second": 197.0},
    )  # fmt: skip
    return Space(planes=(plane, replace(plane, id=3, name="/device:TPU:1")), hostnames=("host",))


# ---- many messages at once ----


@given(st.lists(ids))
def test_varints_in_bulk_are_those_written_one_by_one(numbers):
    whole = varints(array(numbers, np.int64)).join()
    assert whole == b"".join(map(wire.write_varint, numbers))


@given(st.lists(st.tuples(ids, st.binary(max_size=300)), min_size=1, max_size=20))
def test_messages_in_bulk_are_those_written_one_by_one(fields):
    numbers, data = zip(*fields, strict=True)
    inner = varint_field(1, array(numbers, np.int64)).then(message_field(2, texts(data)))
    expected = b"".join(
        wire.write_field(9, wire.write_field(1, n) + wire.write_field(2, d)) for n, d in fields
    )
    assert message_field(9, inner).join() == expected


@given(st.lists(st.booleans(), max_size=50))
def test_a_part_that_only_some_messages_have_leaves_the_others_as_they_are(present):
    rows = constant(b"a", len(present)).then(constant(b"bc", len(present)).where(np.array(present)))
    assert rows.join() == b"".join(b"abc" if p else b"a" for p in present)


@given(st.lists(st.floats()))
def test_doubles_in_bulk_are_eight_bytes_each(numbers):
    assert doubles(array(numbers, np.float64)).join() == array(numbers, "<f8").tobytes()


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_read_in_bulk_as_one_by_one_up_to_the_damage(messages):
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    found = read_messages(np.frombuffer(b"".join(messages), np.uint8), ends - sizes, ends)
    for row, message in enumerate(messages):
        mine = found.select(found.rows == row)
        fields = []
        try:
            for number, value in wire.read_fields(message):
                if number == 0:
                    break
                fields.append((number, value))
        except wire.WireError:
            assert row in found.damaged
        assert mine.numbers.tolist() == [n for n, _ in fields]
        assert [v for k, v in zip(mine.kinds, mine.values.tolist(), strict=True) if k != 2] == [
            v & (1 << 64) - 1 for _, v in fields if isinstance(v, int)
        ]


# ---- profiles ----


@settings(max_examples=200)
@given(spaces)
def test_a_profile_is_read_as_it_was_written(space):
    profile = read_space(encode_space(space))
    assert profile.problems == ()
    assert profile.space == space


@given(spaces)
def test_a_packed_profile_is_read_as_the_plain_one(space):
    assert read_space(gzip.compress(encode_space(space))).space == space


def test_every_beginning_of_a_profile_gives_a_beginning_of_its_events():
    space = small_space()
    data = encode_space(space)
    for end in range(len(data)):
        profile = read_space(data[:end])
        for found, whole in zip(profile.space.planes, space.planes, strict=False):
            assert whole.name.startswith(found.name)
            for line, whole_line in zip(found.lines, whole.lines, strict=False):
                count = len(line.events)
                assert np.array_equal(line.events.offset_ps, whole_line.events.offset_ps[:count])
                assert np.array_equal(line.events.metadata, whole_line.events.metadata[:count])


def test_a_cut_profile_says_that_it_is_cut():
    data = encode_space(small_space())
    assert any("cut" in p for p in read_space(data[:-20]).problems)


def test_every_beginning_of_a_packed_profile_is_read():
    data = gzip.compress(encode_space(small_space()))
    for end in range(2, len(data)):
        assert read_space(data[:end]).problems


def test_a_cut_profile_keeps_the_events_before_the_cut():
    space = small_space()
    data = encode_space(space)
    second = data.index(b"Async XLA Ops") + len(b"Async XLA Ops") + 3
    plane = read_space(data[: second + 30]).space.planes[0]
    assert len(plane.line("XLA Ops").events) == 3
    assert 0 < len(plane.line("Async XLA Ops").events) < 3


@given(st.binary(max_size=200))
def test_any_bytes_are_no_reason_to_raise(data):
    read_space(data)
    read_space(b"\x1f\x8b" + data)


@given(st.data())
def test_a_damaged_profile_is_no_reason_to_raise(data):
    whole = bytearray(encode_space(small_space()))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    read_space(bytes(whole))


def test_an_event_with_one_stat_twice_has_the_last():
    stat = [wire.write_field(4, wire.write_field(1, 1) + wire.write_field(4, n)) for n in (5, 6)]
    event = wire.write_field(1, 3) + b"".join(stat)
    line = wire.write_field(2, "line") + wire.write_field(4, event)
    name = wire.write_field(1, 1) + wire.write_field(2, "step")
    plane = wire.write_field(3, line) + wire.write_field(
        5, wire.write_field(1, 1) + wire.write_field(2, name)
    )
    profile = read_space(wire.write_field(1, plane))
    assert profile.space.planes[0].lines[0].events.stat("step") == {0: 6}


# ---- jaxlib's reader ----

safe_names = st.text("abcdefgh/:. %", min_size=1, max_size=12)


def test_jaxlib_reads_the_same_profile():
    jax = pytest.importorskip("jax")
    space = small_space()
    read = jax.profiler.ProfileData.from_serialized_xspace(encode_space(space))
    for found, plane in zip(read.planes, space.planes, strict=True):
        assert found.name == plane.name
        assert dict(found.stats) == dict(plane.stats)
        for line, expected in zip(found.lines, plane.lines, strict=True):
            assert line.name == expected.name
            events = list(line.events)
            kinds = [plane.metadata[n].name for n in expected.events.metadata.tolist()]
            assert [e.name for e in events] == kinds
            ns = (expected.events.offset_ps / 1000 + expected.began_ns).tolist()
            assert [e.start_ns for e in events] == ns
            assert [e.duration_ns for e in events] == (expected.events.duration_ps / 1000).tolist()
            assert [dict(e.stats).get("run_id") for e in events] == [1, 1, 2]
            assert [dict(e.stats).get("scope") for e in events] == ["a", "b", None]
