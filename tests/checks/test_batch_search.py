"""Laws of the search for the largest batch, on memories of any shape; nothing is compiled."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from vtpu.checks.batch_search import Answer, BatchSearch

ROOM = 10**9


def searched(need, *, start=8, unit=1, most=24, resolution=None, microbatch=1, tiles=None):
    asked = []

    def ask(batch):
        if batch % microbatch:
            return None
        asked.append(batch)
        return Answer(need(batch) <= ROOM, need(batch))

    search = BatchSearch(
        ask=ask,
        start=start,
        unit=unit,
        most=most,
        resolution=resolution,
        room_bytes=lambda: ROOM,
        tiles=lambda _: tiles,
        is_unpadded=lambda batch: not tiles or batch % tiles == 0,
    )
    search.run()
    assert len(asked) == len(set(asked)) <= most
    return search, asked


lines = st.tuples(st.integers(0, ROOM // 2), st.integers(1, ROOM // 64))


@given(lines, st.integers(1, 64))
def test_on_a_line_the_answer_is_within_a_64th(line, start):
    fixed, each = line
    search, _ = searched(lambda b: fixed + each * b, start=start)
    truth = (ROOM - fixed) // each
    assert search.largest <= truth
    assert truth - search.largest <= max(1, truth // 64)


@given(lines)
def test_with_a_resolution_of_one_it_is_exact_on_a_line(line):
    fixed, each = line
    search, _ = searched(lambda b: fixed + each * b, resolution=1)
    assert search.largest == (ROOM - fixed) // each


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 40), st.integers(1, 7))
def test_whatever_memory_does_the_answer_was_compiled_and_fits(seed, start, most, unit):
    def need(batch):
        return (batch * 2654435761 + seed) % (2 * ROOM) * min(batch, 10**4) // 10**4

    search, asked = searched(need, start=start * unit, unit=unit, most=most)
    assert all(batch % unit == 0 for batch in asked)
    assert search.largest == max((b for b in asked if need(b) <= ROOM), default=0)


@given(lines, st.sampled_from([2, 4, 8, 16]))
def test_sizes_that_do_not_trace_are_left_out_and_found_out(line, microbatch):
    fixed, each = line
    search, asked = searched(lambda b: fixed + each * b, start=64, microbatch=microbatch)
    assert all(batch % microbatch == 0 for batch in asked)
    truth = (ROOM - fixed) // each // microbatch * microbatch
    assert truth - search.largest <= max(microbatch, truth // 64)


def test_a_batch_that_fits_above_one_that_does_not_is_found():
    def need(batch):
        return ROOM + 1 if 100 <= batch < 200 or batch > 300 else batch

    search, asked = searched(need, start=64)
    assert 128 in asked
    assert search.largest >= 256


def test_a_start_that_is_too_large_is_halved():
    search, asked = searched(lambda b: 10**7 * b, start=4096)
    assert search.largest == 100
    assert len(asked) < 20


def test_where_nothing_fits_the_smallest_was_compiled():
    search, asked = searched(lambda b: ROOM + b, start=64)
    assert (search.largest, min(asked)) == (0, 1)


@given(lines, st.sampled_from([8, 16, 128]))
def test_the_largest_that_fills_the_tiles_is_among_what_was_compiled(line, tiles):
    fixed, each = line
    search, asked = searched(lambda b: fixed + each * b, tiles=tiles, most=60)
    whole = search.largest // tiles * tiles
    assert whole == 0 or whole in asked


def test_large_steps_are_taken_where_there_is_much_room():
    _, asked = searched(lambda b: b, start=8)
    assert len(asked) < 20
    assert math.log2(max(asked)) > 29
