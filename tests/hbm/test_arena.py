"""The arena of device memory: laws, and the worked examples of the allocator notes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from vtpu.hbm import Arena
from vtpu.units import GIB, MIB

QUANTUM = 512


def test_the_first_block_lies_at_the_high_end():
    arena = Arena(16 * GIB)
    assert arena.allocate(1 * GIB).address == 15 * GIB


def test_holes_between_arrays_bound_what_a_program_can_reserve():
    arena = Arena(16 * GIB)
    blocks = [arena.allocate(GIB) for _ in range(8)]
    arena.allocate(256 * MIB)
    for i in (1, 3, 5):
        arena.free(blocks[i])
    assert arena.limit - arena.in_use == 10.75 * GIB
    assert arena.reservable == 7.75 * GIB


def test_half_of_memory_free_in_pieces_does_not_hold_a_larger_piece():
    arena = Arena(16 * GIB)
    blocks = [arena.allocate(GIB) for _ in range(16)]
    for block in blocks[1::2]:
        arena.free(block)
    assert arena.limit - arena.in_use == 8 * GIB
    assert arena.largest_free == GIB
    assert arena.allocate(2 * GIB) is None
    assert arena.allocate(GIB) is not None


def test_the_smallest_hole_that_holds_the_request_is_taken():
    arena = Arena(100 * QUANTUM)
    large, wall, small, _ = (arena.allocate(n * QUANTUM) for n in (8, 1, 4, 1))
    arena.free(large)
    arena.free(small)
    assert arena.allocate(3 * QUANTUM).address == small.address + QUANTUM
    assert wall.size == QUANTUM


@pytest.mark.parametrize("size", [0, -1])
def test_blocks_without_bytes_are_refused(size):
    with pytest.raises(ValueError, match="block"):
        Arena(GIB).allocate(size)


def test_a_block_is_freed_once():
    arena = Arena(GIB)
    block = arena.allocate(512)
    arena.free(block)
    with pytest.raises(ValueError, match="before"):
        arena.free(block)


class ArenaLaws(RuleBasedStateMachine):
    """Whatever is allocated and freed: blocks never overlap and no byte is lost."""

    blocks = Bundle("blocks")

    def __init__(self):
        super().__init__()
        self.arena = Arena(64 * QUANTUM)
        self.live = []

    @rule(target=blocks, size=st.integers(1, 20 * QUANTUM))
    def allocate(self, size):
        largest = self.arena.largest_free
        block = self.arena.allocate(size)
        if block is None:
            assert -(-size // QUANTUM) * QUANTUM > largest
            return None
        assert block.size >= size
        assert block.size - size < QUANTUM
        self.live.append(block)
        return block

    @rule(block=consumes(blocks))
    def free(self, block):
        if block is not None:
            self.live.remove(block)
            self.arena.free(block)

    @invariant()
    def blocks_never_overlap(self):
        spans = sorted((b.address, b.address + b.size) for b in self.live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(0 <= start and end <= self.arena.limit for start, end in spans)

    @invariant()
    def bytes_in_use_are_those_of_the_blocks(self):
        assert self.arena.in_use == sum(b.size for b in self.live)

    @invariant()
    def the_largest_hole_is_the_largest_gap_between_blocks(self):
        edges = sorted((b.address, b.address + b.size) for b in self.live)
        starts = [0, *(end for _, end in edges)]
        ends = [*(start for start, _ in edges), self.arena.limit]
        gaps = [end - start for start, end in zip(starts, ends, strict=True)]
        assert self.arena.largest_free == max(gaps)
        assert self.arena.reservable == gaps[0]


TestArenaLaws = ArenaLaws.TestCase


@given(st.lists(st.integers(1, 8 * QUANTUM), max_size=30), st.randoms())
def test_freeing_everything_restores_one_block(sizes, random):
    arena = Arena(64 * QUANTUM)
    blocks = [b for b in map(arena.allocate, sizes) if b is not None]
    random.shuffle(blocks)
    for block in blocks:
        arena.free(block)
    assert arena.in_use == 0
    assert arena.largest_free == arena.reservable == arena.limit
