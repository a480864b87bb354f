"""Compile options as JAX sends them."""

from hypothesis import given
from hypothesis import strategies as st

from vtpu.reading import wire
from vtpu.reading.compile_options import (
    dump_folder,
    encode_assignment,
    normalize,
    on_device,
    read_compile_options,
    with_dump,
)


def options(num_replicas, num_partitions, device_ids=None, debug=b""):
    build = wire.write_field(4, num_replicas) + wire.write_field(5, num_partitions)
    if device_ids is not None:
        build += wire.write_field(9, encode_assignment(num_replicas, num_partitions, device_ids))
    if debug:
        build += wire.write_field(3, debug)
    return wire.write_field(3, build) + wire.write_field(9, 1)


@given(st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_devices_are_read_in_the_order_of_replica_and_partition(replicas, partitions, random):
    ids = list(range(100, 100 + replicas * partitions))
    random.shuffle(ids)
    read = read_compile_options(options(replicas, partitions, tuple(ids)))
    assert (read.num_replicas, read.num_partitions) == (replicas, partitions)
    assert read.device_ids == tuple(ids)


def test_options_without_an_assignment_are_of_a_portable_program():
    assert read_compile_options(options(1, 1)).device_ids is None


def test_a_program_for_one_device_can_be_moved_and_keeps_its_other_options():
    moved = on_device(options(1, 1, (7,)), 0)
    assert moved == options(1, 1, (0,))


@given(st.permutations([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]))
def test_the_order_of_map_entries_says_nothing(entries):
    def debug(pairs):
        entry = [wire.write_field(1, k) + wire.write_field(2, v) for k, v in pairs]
        return b"".join(wire.write_field(357, e) for e in entry) + wire.write_field(31, 3)

    assert normalize(options(1, 1, (0,), debug(entries))) == normalize(
        options(1, 1, (0,), debug(sorted(entries)))
    )


def test_normal_options_say_the_same_as_before():
    data = options(2, 2, (3, 1, 2, 0), wire.write_field(31, 3))
    assert read_compile_options(normalize(data)) == read_compile_options(data)
    assert normalize(normalize(data)) == normalize(data)


def test_a_dump_that_the_user_asked_for_is_seen_however_it_was_asked():
    plain = options(1, 1)
    assert dump_folder(plain) == ""
    assert dump_folder(with_dump(plain, "/somewhere")) == "/somewhere"
    assert dump_folder(options(1, 1, debug=wire.write_field(109, "/by-flags"))) == "/by-flags"


def test_options_with_a_dump_spread_the_program_the_same():
    data = options(2, 2, (3, 1, 2, 0))
    assert read_compile_options(with_dump(data, "/x")) == read_compile_options(data)
