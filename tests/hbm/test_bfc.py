"""The allocator of XLA's GPU client and of TensorFlow: worked examples of its rules, and laws."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.hbm import Bfc
from vtpu.units import GIB, MIB

QUANTUM = 256


def mib(*sizes):
    return [size * MIB for size in sizes]


def test_a_chunk_less_than_twice_the_request_is_given_whole():
    pool = Bfc(GIB)
    first, *_ = map(pool.allocate, mib(100, 60, 10))
    pool.free(first)
    again = pool.allocate(60 * MIB)
    assert (again.address, again.size) == (0, 100 * MIB)
    assert pool.in_use == 178_257_920


@pytest.mark.parametrize(("wanted", "given_mib", "left_mib"), [(270, 270, 130), (273, 400, 0)])
def test_a_hole_of_400_mib_is_split_when_128_mib_are_left_over(wanted, given_mib, left_mib):
    pool = Bfc(800 * MIB)
    hole, _ = map(pool.allocate, mib(400, 400))
    pool.free(hole)
    assert pool.allocate(wanted * MIB).size == given_mib * MIB
    assert pool.largest_free == left_mib * MIB


def test_growth_doubles_its_regions_until_the_request_fits():
    pool = Bfc(GIB, growth=True)
    pools = []
    for size in mib(1, 1, 3, 10, 40, 200):
        pool.allocate(size)
        pools.append(pool.pool_bytes)
    assert pools == mib(2, 2, 6, 22, 86, 342)
    assert pool.regions == tuple(mib(2, 4, 16, 64, 256))


@pytest.mark.parametrize(("growth", "largest"), [(True, 33_554_432), (False, 31_457_280)])
def test_holes_of_30_mib_do_not_hold_60(growth, largest):
    pool = Bfc(256 * MIB, growth=growth)
    chunks = [pool.allocate(30 * MIB) for _ in range(8)]
    for chunk in chunks[::2]:
        pool.free(chunk)
    assert pool.largest_free == largest
    assert pool.allocate(60 * MIB) is None


@pytest.mark.parametrize("collects", [True, False])
def test_idle_regions_make_room_for_a_larger_one_when_they_are_collected(collects):
    pool = Bfc(256 * MIB, growth=True, garbage_collection=collects)
    chunks = [pool.allocate(size) for size in mib(2, 4, 8, 16, 32, 64)]
    for chunk in chunks[:5]:
        pool.free(chunk)
    assert pool.pool_bytes == 126 * MIB
    chunk = pool.allocate(150 * MIB)
    assert (chunk is not None) is collects
    assert pool.regions[-1] == (192 if collects else 64) * MIB
    assert pool.pool_bytes == (256 if collects else 126) * MIB


def test_a_preallocated_pool_has_all_of_its_limit_at_once():
    assert Bfc(GIB).pool_bytes == GIB
    assert Bfc(GIB, growth=True).pool_bytes == 0


def test_temporaries_take_a_chunk_like_any_other_and_give_it_back():
    pool = Bfc(120 * MIB)
    hole, _ = map(pool.allocate, mib(60, 30))
    assert not pool.reserve(40 * MIB)
    pool.free(hole)
    assert pool.reserve(60 * MIB)
    assert pool.in_use == 30 * MIB


def test_a_chunk_is_freed_once():
    pool = Bfc(GIB)
    chunk = pool.allocate(1)
    pool.free(chunk)
    with pytest.raises(ValueError, match="before"):
        pool.free(chunk)


@pytest.mark.parametrize("size", [0, -1])
def test_chunks_without_bytes_are_refused(size):
    with pytest.raises(ValueError, match="block"):
        Bfc(GIB).allocate(size)


# ---- laws --------------------------------------------------------------------------------------


class Binned:
    """Chunks of one region as the source text has them: bins by size, each by size and address."""

    def __init__(self, limit):
        self.chunks = [(0, limit, False)]  # address, size, in use

    @staticmethod
    def bin_of(size):
        return min(20, (max(size, 256) // 256).bit_length() - 1)

    def allocate(self, size):
        size = -(-size // QUANTUM) * QUANTUM
        for number in range(self.bin_of(size), 21):
            free = [(s, a) for a, s, used in self.chunks if not used and self.bin_of(s) == number]
            for chunk, address in sorted(free):
                if chunk >= size:
                    return self.take(address, chunk, size)
        return None

    def take(self, address, chunk, size):
        self.chunks.remove((address, chunk, False))
        if chunk >= 2 * size or chunk - size >= 128 * MIB:
            self.chunks.append((address + size, chunk - size, False))
            chunk = size
        self.chunks.append((address, chunk, True))
        return address, chunk

    def free(self, address, size):
        self.chunks.remove((address, size, True))
        for at, chunk, used in list(self.chunks):
            if not used and at + chunk == address:
                self.chunks.remove((at, chunk, used))
                address, size = at, chunk + size
            elif not used and address + size == at:
                self.chunks.remove((at, chunk, used))
                size += chunk
        self.chunks.append((address, size, False))


steps = st.lists(
    st.one_of(
        st.integers(1, 3_000).map(lambda n: ("allocate", n)),
        st.integers(1, 40 * MIB).map(lambda n: ("allocate", n)),
        st.integers(0, 50).map(lambda n: ("free", n)),
    ),
    max_size=60,
)


@given(steps)
def test_one_order_by_size_is_what_the_bins_are(some_steps):
    pool, binned, live = Bfc(256 * MIB), Binned(256 * MIB), []
    for kind, number in some_steps:
        if kind == "allocate":
            chunk, expected = pool.allocate(number), binned.allocate(number)
            assert (chunk and (chunk.address, chunk.size)) == expected
            live += [chunk] if chunk else []
        elif live:
            chunk = live.pop(number % len(live))
            pool.free(chunk)
            binned.free(chunk.address, chunk.size)


@given(steps, st.booleans(), st.booleans())
def test_chunks_never_overlap_and_no_byte_is_lost(some_steps, growth, collects):
    pool, live = Bfc(100 * MIB, growth=growth, garbage_collection=collects), []
    for kind, number in some_steps:
        if kind == "allocate":
            largest = pool.largest_free
            chunk = pool.allocate(number)
            assert (chunk is None) is (-(-number // QUANTUM) * QUANTUM > largest)
            live += [chunk] if chunk else []
        elif live:
            pool.free(live.pop(number % len(live)))
        spans = sorted((c.address, c.address + c.size) for c in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert pool.in_use == sum(c.size for c in live)
        assert pool.pool_bytes == sum(pool.regions) <= pool.limit
    for chunk in live:
        pool.free(chunk)
    assert pool.in_use == 0
    if collects or not growth:
        assert pool.largest_free == pool.limit
