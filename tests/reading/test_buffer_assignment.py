"""The compiler's buffer assignment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.reading import wire
from vtpu.reading.buffer_assignment import find_assignment, hbm_temporaries, read_assignment

# field numbers of BufferAllocationProto
SIZE, THREAD_LOCAL, PARAMETER, LIVE_OUT, MEMORY_SPACE, CONSTANT = 2, 3, 5, 7, 8, 12
OTHERS = [THREAD_LOCAL, PARAMETER, LIVE_OUT, MEMORY_SPACE, CONSTANT]

sizes = st.lists(st.integers(0, 2**40), max_size=5)


def allocation(size, mark=None):
    marked = wire.write_field(mark, 1) if mark else b""
    return wire.write_field(SIZE, size) + marked


def module(allocations):
    assignment = b"".join(wire.write_field(3, a) for a in allocations)
    return wire.write_field(1, b"the module") + wire.write_field(3, assignment)


@given(sizes, st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from(OTHERS)), max_size=5))
def test_temporaries_are_what_is_nothing_else(temporaries, others):
    allocations = [allocation(size) for size in temporaries]
    allocations += [allocation(size, mark) for size, mark in others]
    read = read_assignment(find_assignment(module(allocations)))
    assert hbm_temporaries(read) == sum(temporaries)
    assert [a.size for a in read.allocations] == temporaries + [size for size, _ in others]


def test_a_module_without_an_assignment_has_none():
    assert not find_assignment(wire.write_field(1, b"the module"))


def test_a_cut_file_is_refused():
    whole = module([allocation(2**30)])
    with pytest.raises(wire.WireError):
        find_assignment(whole[:-1])
