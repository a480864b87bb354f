"""The arena of a TPU under every assumption: worked examples, and laws that hold under all of them."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.hbm import (
    Arena,
    Compaction,
    End,
    Fit,
    Reservations,
    TpuAssumptions,
    TwoEndedArena,
)
from vtpu.units import GIB, MIB

QUANTUM = 512
EVERY = [
    TpuAssumptions(fit=fit, end=end, compaction=compaction, reservations=reservations)
    for fit, end, compaction, reservations in product(Fit, End, Compaction, Reservations)
]


def arena(limit=16 * GIB, **assumptions):
    return TwoEndedArena(limit, TpuAssumptions(**assumptions))


def with_holes(**assumptions):
    """Eight arrays of 1 GiB and one of 256 MiB, of which the second, fourth and sixth are freed."""
    found = arena(**assumptions)
    blocks = [found.allocate(GIB) for _ in range(8)]
    found.allocate(256 * MIB)
    for i in (1, 3, 5):
        found.free(blocks[i])
    return found


@pytest.mark.parametrize("end", End)
def test_holes_between_arrays_bound_what_a_program_can_reserve(end):
    found = with_holes(end=end)
    assert found.limit - found.in_use == 10.75 * GIB
    assert (found.reserved, found.reservable) == (0, 7.75 * GIB)
    assert not found.reserve(9 * GIB)
    assert found.reserve(int(7.75 * GIB))


@pytest.mark.parametrize("model", [Arena, TwoEndedArena])
def test_updating_weights_in_turn_moves_what_a_program_can_reserve(model):
    found = model(16 * GIB)
    weights = [found.allocate(GIB) for _ in range(6)]
    assert found.reservable == 10 * GIB  # and stays with donation, which places nothing
    reservable = []
    for _ in range(3):
        new = [found.allocate(GIB) for _ in weights]
        for old in weights:
            found.free(old)
        weights = new
        reservable.append(found.reservable // GIB)
    assert reservable == [4, 0, 8]  # a program of 5 GiB fails after some steps only


def test_compaction_makes_room_for_a_program_only_where_it_is_assumed_for_programs():
    assert not with_holes(compaction=Compaction.FOR_BUFFERS).reserve(9 * GIB)
    moved = with_holes(compaction=Compaction.FOR_ANYTHING)
    assert moved.reserve(9 * GIB)
    assert moved.reservable == moved.largest_free == 10.75 * GIB


def test_compaction_makes_room_for_a_buffer():
    assert with_holes().allocate(9 * GIB) is None
    assert with_holes(compaction=Compaction.FOR_BUFFERS).allocate(9 * GIB) is not None


def test_programs_that_keep_their_reservations_add_up_until_a_buffer_needs_the_room():
    found = arena(reservations=Reservations.PER_PROGRAM)
    assert found.reserve(6 * GIB, 1)
    assert found.reserve(6 * GIB, 1)  # loaded already
    assert found.reserve(4 * GIB, 2)
    assert (found.reserved, found.reservable) == (10 * GIB, 6 * GIB)
    assert not found.reserve(7 * GIB, 3)
    assert found.allocate(8 * GIB) is not None
    assert found.reserved == 0


@pytest.mark.parametrize(
    ("fit", "end", "address"),
    [
        (Fit.BEST, End.HIGH, 11),
        (Fit.FIRST, End.HIGH, 43),
        (Fit.WORST, End.HIGH, 27),
        (Fit.BEST, End.LOW, 10),
        (Fit.FIRST, End.LOW, 10),
        (Fit.WORST, End.LOW, 20),
    ],
)
def test_the_fit_says_which_hole_is_taken_and_the_end_which_side_of_it(fit, end, address):
    found = TwoEndedArena(50, TpuAssumptions(fit=fit, end=end, quantum_bytes=1))
    ones = sorted((found.allocate(1) for _ in range(50)), key=lambda block: block.address)
    for one in ones[10:12] + ones[20:28] + ones[40:44]:
        found.free(one)
    assert found.allocate(1).address == address


def test_a_block_is_freed_once():
    found = arena()
    block = found.allocate(1)
    found.free(block)
    with pytest.raises(ValueError, match="before"):
        found.free(block)


@pytest.mark.parametrize("size", [0, -1])
def test_blocks_without_bytes_are_refused(size):
    with pytest.raises(ValueError, match="block"):
        arena().allocate(size)


# ---- laws --------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(st.sampled_from(["allocate", "free", "reserve"]), st.integers(1, 20 * QUANTUM)),
    max_size=60,
)


@given(steps, st.integers(40 * QUANTUM, 64 * QUANTUM))
def test_the_defaults_are_the_arena_of_the_virtual_slice(some_steps, limit):
    model, native, live = TwoEndedArena(limit), Arena(limit), []
    for kind, number in some_steps:
        if kind == "allocate":
            pair = model.allocate(number), native.allocate(number)
            assert [b and (b.address, b.size) for b in pair[:1]] == [
                b and (b.address, b.size) for b in pair[1:]
            ]
            live += [pair] if pair[0] else []
        elif kind == "reserve":
            assert model.reserve(number) == native.reserve(number)
        elif live:
            ours, theirs = live.pop(number % len(live))
            model.free(ours)
            native.free(theirs)
        for name in ("in_use", "largest_free", "reservable", "reserved", "pool_bytes"):
            assert getattr(model, name) == getattr(native, name)


@given(steps, st.sampled_from(EVERY))
def test_blocks_never_overlap_and_no_byte_is_lost(some_steps, assumptions):
    found, live = TwoEndedArena(64 * QUANTUM, assumptions), []
    for program, (kind, number) in enumerate(some_steps):
        if kind == "allocate":
            block = found.allocate(number)
            live += [block] if block else []
        elif kind == "reserve":
            found.reserve(number, program % 5)
        elif live:
            found.free(live.pop(number % len(live)))
        spans = sorted((b.address, b.address + b.size) for b in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        low = found.reserved if assumptions.end is End.HIGH else 0
        high = found.limit - (found.reserved if assumptions.end is End.LOW else 0)
        assert all(low <= start and end <= high for start, end in spans)
        assert found.in_use == sum(b.size for b in live)
        edges = [low, *(edge for span in spans for edge in span), high]
        gaps = [end - start for start, end in zip(edges[::2], edges[1::2], strict=True)]
        assert found.largest_free == max(gaps)
        assert found.reservable == gaps[0 if assumptions.end is End.HIGH else -1]
    for block in live:
        found.free(block)
    assert found.largest_free == found.reservable == found.limit - found.reserved


@given(steps, st.sampled_from(list(Fit)), st.sampled_from(list(End)))
def test_with_compaction_a_buffer_fails_only_for_want_of_bytes(some_steps, fit, end):
    found, live = (
        arena(64 * QUANTUM, fit=fit, end=end, compaction=Compaction.FOR_BUFFERS),
        [],
    )
    for kind, number in some_steps:
        if kind == "free" and live:
            found.free(live.pop(number % len(live)))
            continue
        block = found.allocate(number)
        live += [block] if block else []
        if block is None:
            assert -(-number // QUANTUM) * QUANTUM > found.limit - found.in_use
