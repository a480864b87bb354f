"""Replays: the recorded slice gives the recorded run again, others give their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings import LIMIT, allocate, execute, free, program, recording, run_record
from vtpu.analysis.replay.addresses import BlockAt, gaps_between, in_the_way, recorded_blocks
from vtpu.analysis.replay.allocators import choose_allocator
from vtpu.analysis.replay.replay import replay
from vtpu.analysis.replay.requests import RequestKind, requests_of
from vtpu.analysis.replay.summary import summarize_replay
from vtpu.analysis.source_lines import LineFinder
from vtpu.errors import UsageError
from vtpu.hbm import AllocatorName, Arena, Bfc, TwoEndedArena
from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import ShapeRecord

Q = 512


def failure(size, **fields):
    return {"kind": EventKind.FAILURE, "bytes": size, **fields}


def replayed(*rows, allocator=None, **parts):
    return replay(requests_of(recording(*rows, **parts), 0), allocator or Arena(LIMIT))


# ---- the law -----------------------------------------------------------------------------------


class Slice:
    """A virtual device that executes as the native core does, and keeps its events."""

    def __init__(self, limit):
        self.arena = Arena(limit)
        self.rows = []
        self.live = {}
        self.number = 0

    def place(self, size, **fields):
        block = self.arena.allocate(size)
        if block is None:
            self.rows.append(failure(size, **fields))
            return None
        self.number += 1
        self.live[self.number] = block
        self.rows.append(allocate(self.number, block.size, address=block.address, **fields))
        return self.number

    def free(self, number):
        block = self.live.pop(number)
        self.rows.append(free(number, block.size, address=block.address))
        self.arena.free(block)

    def execute(self, outputs, temporaries, donated):
        at = len(self.rows)
        self.rows.append(execute(1, temporaries))
        placed = [self.place(size, program=1) for size in outputs]
        fits = None not in placed
        if fits and temporaries and not self.arena.reserve(temporaries):
            self.rows.append(failure(temporaries, program=1, flags=EventFlag.RESERVE))
            fits = False
        if not fits:
            self.rows[at]["flags"] = EventFlag.FAILED
            for number in filter(None, placed):
                self.free(number)
        elif donated in self.live:
            block = self.live.pop(donated)
            where = {"address": block.address, "flags": EventFlag.ALIASED}
            self.number += 1
            self.live[self.number] = block
            self.rows.append(free(donated, block.size, **where))
            self.rows.append(allocate(self.number, block.size, program=1, **where))


sizes = st.integers(1, 6 * Q)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), sizes),
        st.tuples(st.just("free"), st.integers(0, 30)),
        st.tuples(
            st.just("execute"),
            st.lists(sizes, max_size=1),
            st.integers(0, 9 * Q),
            st.integers(0, 30),
        ),
    ),
    max_size=40,
)


def run_of(some_steps):
    device = Slice(LIMIT)
    for kind, *what in some_steps:
        if kind == "place":
            device.place(*what)
        elif kind == "execute":
            outputs, temporaries, donated = what
            live = sorted(device.live)
            device.execute(outputs, temporaries, live[donated % len(live)] if live else 0)
        elif device.live:
            live = sorted(device.live)
            device.free(live[what[0] % len(live)])
    return device


@given(steps)
def test_the_recorded_slice_gives_the_recorded_addresses_and_failures(some_steps):
    device = run_of(some_steps)
    found = recording(*device.rows)
    requests = requests_of(found, 0)
    result = replay(requests, Arena(LIMIT))
    placed = requests.kind == RequestKind.ALLOCATE
    assert (
        result.address[placed].tolist() == found.events["address"][requests.event[placed]].tolist()
    )
    failed = [row for row in found.events if row["kind"] == EventKind.FAILURE]
    assert [(f.wanted, f.is_reservation) for f in result.failures] == [
        (row["bytes"], bool(row["flags"] & EventFlag.RESERVE)) for row in failed
    ]
    assert all(f.is_recorded for f in result.failures)
    assert not result.is_cut
    assert result.fitted_attempts == 0
    assert result.in_use.tolist()[-1:] in ([], [device.arena.in_use])
    blocks = recorded_blocks(found, 0, len(found.events))
    gaps = gaps_between(blocks, LIMIT)
    assert (gaps.largest, gaps.at_bottom) == (device.arena.largest_free, device.arena.reservable)
    assert gaps.free == LIMIT - device.arena.in_use


@given(steps, st.sampled_from([Bfc, TwoEndedArena, Arena]))
def test_bytes_are_conserved_under_every_allocator(some_steps, model):
    found = recording(*run_of(some_steps).rows)
    result = replay(requests_of(found, 0), model(LIMIT))
    assert (result.in_use + result.free == result.limit).all()
    assert (result.largest_free <= result.free).all()
    assert (result.reservable <= result.largest_free).all()
    assert ((result.fragmentation >= 0) & (result.fragmentation <= 1)).all()


# ---- failures ----------------------------------------------------------------------------------


def test_the_replay_ends_at_a_failure_that_was_not_recorded():
    result = replayed(
        allocate(1, 8 * Q), execute(1, 9 * Q), allocate(2, 8 * Q), allocator=Arena(16 * Q)
    )
    (found,) = result.failures
    assert (found.wanted, found.free, found.is_reservation) == (9 * Q, 8 * Q, True)
    assert (found.is_recorded, result.is_cut, len(result.in_use)) == (False, True, 1)
    assert found.lacks_bytes


def test_a_recorded_failure_that_fits_on_a_larger_chip_is_counted_and_taken_back():
    rows = (allocate(1, 8 * Q), failure(12 * Q), allocate(2, Q))
    result = replayed(*rows, allocator=Arena(32 * Q))
    assert (result.fitted_attempts, result.failures) == (1, ())
    assert result.in_use.tolist() == [8 * Q, 8 * Q, 9 * Q]
    assert result.peak_bytes == 20 * Q


def test_an_output_of_the_failed_execution_may_itself_stand_in_the_way():
    rows = (
        execute(1, 18 * Q, flags=EventFlag.FAILED),
        allocate(1, 4 * Q, program=1),
        failure(18 * Q, program=1, flags=EventFlag.RESERVE),
        free(1, 4 * Q),
    )
    (found,) = replayed(*rows).failures
    assert [b.size for b in found.blocks] == [4 * Q]


def test_temporaries_in_a_preallocated_pool_may_fail_where_a_tpu_has_room_apart():
    """Of 16 blocks a pool of 12, with an array in its middle that is at the high end of a TPU."""
    rows = (allocate(1, 4 * Q), allocate(2, 2 * Q), free(1, 4 * Q), execute(1, 9 * Q))
    assert not replayed(*rows, allocator=Arena(16 * Q)).failures
    (found,) = replayed(*rows, allocator=Bfc(12 * Q)).failures
    assert found.is_reservation


# ---- in the way --------------------------------------------------------------------------------


def test_what_stands_in_the_way_is_the_least_that_would_have_to_go():
    blocks = [BlockAt(0, 4, 1), BlockAt(6, 1, 2), BlockAt(9, 5, 3), BlockAt(16, 4, 4)]
    assert [b.block for b in in_the_way(blocks, 5, 20, at_bottom=False)] == [2]
    assert [b.block for b in in_the_way(blocks, 12, 20, at_bottom=False)] == [2, 3]
    assert [b.block for b in in_the_way(blocks, 7, 20, at_bottom=True)] == [1, 2]
    assert in_the_way(blocks, 2, 20, at_bottom=False) == ()
    assert in_the_way(blocks, 21, 20, at_bottom=False) == ()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=7),
    st.integers(1, 40),
)
def test_no_cheaper_way_to_have_a_piece_exists(gaps_and_sizes, wanted):
    blocks, edge = [], 0
    for number, (gap, size) in enumerate(gaps_and_sizes):
        blocks.append(BlockAt(edge + gap, size, number))
        edge += gap + size
    limit = edge + 3
    found = in_the_way(blocks, wanted, limit, at_bottom=False)
    costs = []
    for subset in range(1 << len(blocks)):
        kept = [b for i, b in enumerate(blocks) if not subset >> i & 1]
        if gaps_between(kept, limit).largest >= wanted:
            costs.append(limit - gaps_between(blocks, limit).free - sum(b.size for b in kept))
    if costs:
        assert sum(b.size for b in found) == min(costs)
    else:
        assert found == ()


# ---- allocators and chips ----------------------------------------------------------------------


def test_a_tpu_has_all_of_the_recorded_memory_and_bfc_three_quarters():
    found = recording(allocate(1, Q))
    assert choose_allocator(found, AllocatorName.TPU).facts.limit_bytes == LIMIT
    assert choose_allocator(found, AllocatorName.BFC).facts.limit_bytes == 7_424  # 29 times 256
    assert choose_allocator(found, AllocatorName.GROWTH).facts.limit_bytes == 9_984
    half = choose_allocator(found, AllocatorName.BFC, fraction=0.5)
    assert (half.facts.limit_bytes, half.facts.fraction) == (4_864, 0.5)


def test_another_chip_has_its_own_memory_and_the_sizes_of_the_recorded_one():
    found = recording(allocate(1, Q), run=run_record(8))
    same = choose_allocator(found, AllocatorName.TPU, on="v5e-8").facts
    assert same.hbm_bytes == LIMIT
    other = choose_allocator(found, AllocatorName.TPU, on="v6e-8").facts
    assert other.hbm_bytes == int(31.24 * 2**30) // 512 * 512
    assert len(other.assumptions) == len(same.assumptions) + 2
    assert "vtpu run --on v6e:2x4" in other.assumptions[-2]


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.01, float("nan"), float("inf")])
def test_a_fraction_is_a_part(fraction):
    with pytest.raises(UsageError, match="part of memory"):
        choose_allocator(recording(), AllocatorName.BFC, fraction=fraction)


def test_a_fraction_too_small_for_a_pool_is_refused():
    with pytest.raises(UsageError, match="too little"):
        choose_allocator(recording(), AllocatorName.BFC, fraction=0.01)


def test_a_slice_with_other_devices_is_refused():
    with pytest.raises(UsageError, match="8 devices, 8 of them on this host; v5e:4x4 has 16, 4"):
        choose_allocator(recording(run=run_record(8)), AllocatorName.TPU, on="v5e-16")


# ---- the summary -------------------------------------------------------------------------------


def summary_of(*rows, name=AllocatorName.TPU, **parts):
    found = recording(*rows, **parts)
    return summarize_replay(found, choose_allocator(found, name))


def test_devices_that_are_alike_are_replayed_once():
    rows = [allocate(1 + d, Q, device=d) for d in range(4)]
    summary = summary_of(*rows, run=run_record(4), programs=(program(1, device_ids=(0, 1)),))
    assert [d.devices for d in summary.devices] == [(0, 1, 2, 3)]
    assert summary.fits


def test_a_recording_without_requests_has_nothing_to_replay():
    with pytest.raises(UsageError, match="nothing to replay"):
        summary_of()


def test_the_first_failure_says_what_it_lacked_and_what_was_in_its_way():
    """Holes of 4 between arrays of 4, at the high end of 19 blocks; a program wants 8."""
    rows = [allocate(n, 4 * Q, stack=1 + n % 2) for n in range(1, 5)]
    rows += [free(1, 4 * Q), free(3, 4 * Q), execute(1, 8 * Q, stack=2)]
    found = summary_of(*rows)
    (device,) = found.devices
    (failed,) = device.failures
    assert not found.fits
    assert (failed.lack, failed.is_recorded, failed.program) == (
        "contiguous bytes",
        False,
        "jit_step",
    )
    assert str(failed.line) == "/project/data.py:3"
    assert [str(h.line) for h in failed.in_the_way] == ["/project/train.py:12"]
    assert failed.in_the_way[0].bytes == 4 * Q
    assert sum(group.bytes for group in failed.alive) == 8 * Q
    assert {v.what: v.failures for v in device.varied or ()} == {
        "buffers take the first free piece from the high end": 1,
        "buffers take the largest free piece": 1,
        "buffers fill memory from the low end, programs reserve at the high end": 1,
        "sizes are multiples of 4 KiB": 1,
        "buffers are moved together when one finds no room": 1,
        "buffers are moved together also when a program finds no room": 0,
        "programs keep their temporaries until a buffer needs the room": 1,
    }


def test_outputs_count_among_what_is_alive_when_their_program_finds_no_room():
    rows = (allocate(1, 4 * Q), execute(1, 12 * Q), allocate(2, 4 * Q, program=1))
    (device,) = summary_of(*rows).devices
    (failed,) = device.failures
    assert failed.is_reservation
    assert sum(group.bytes for group in failed.alive) == 8 * Q


def smaller(*rows, fraction, **parts):
    found = recording(*rows, **parts)
    choice = choose_allocator(found, AllocatorName.BFC, fraction=fraction)
    (device,) = summarize_replay(found, choice).devices
    return device


UPDATE = program(1, parameter_shapes=("f32[8,128]{1,0}",))


def test_donation_is_tried_for_an_execution_that_finds_no_room_only_in_the_replay():
    """A pool of 7.5 blocks: with the temporaries, then with a second output, one array is too many."""
    start, second = allocate(1, 3 * Q), allocate(3, 3 * Q, program=1)
    step = (allocate(2, 3 * Q, program=1), free(1, 3 * Q))
    for rows in ((execute(1, 2 * Q), *step), (execute(1), second, *step)):
        device = smaller(start, *rows, fraction=0.4, programs=(UPDATE,))
        (failed,) = device.failures
        assert failed.is_reservation is (rows[1] is not second)
        assert not failed.is_recorded
        assert {w.kind: w.avoids_failure for w in device.what_ifs or ()} == {"donation": True}


def test_arguments_of_the_execution_that_finds_no_room_are_not_called_unused():
    """What runs first since the array was made is the execution that fails."""
    rows = [allocate(1, 4 * Q), *(allocate(2, Q), free(2, Q)) * 4]
    rows += [execute(1, Q), allocate(3, 6 * Q, program=1)]
    for failing in (rows, [*rows[:-2], execute(1, 6 * Q)]):
        device = smaller(*failing, fraction=0.45, programs=(UPDATE,))
        assert device.failures
        assert "freeing unused arrays" not in {w.kind for w in device.what_ifs or ()}


def test_an_array_that_finds_no_room_only_in_the_replay_is_not_made_first_instead():
    rows = (allocate(1, 2 * Q), allocate(2, Q, stack=1), free(1, 2 * Q), allocate(3, 6 * Q))
    device = smaller(*rows, fraction=0.4, programs=())
    (moved,) = [w for w in device.what_ifs or () if w.kind == "reordering"]
    assert moved.what == "make the array that stays before those that come and go"


def test_the_lowest_free_memory_is_no_more_than_what_a_failure_found():
    rows = (allocate(1, 4 * Q), execute(1, flags=EventFlag.FAILED), allocate(2, 12 * Q, program=1))
    step = program(1, output_bytes=20 * Q)
    (device,) = summary_of(
        *rows, failure(8 * Q, program=1), free(2, 12 * Q), programs=(step,)
    ).devices
    assert device.failures[0].reservable_bytes == device.lowest_reservable_bytes
    assert device.failures[0].largest_free_bytes == device.lowest_largest_free_bytes


def test_an_output_of_the_failed_execution_in_the_way_has_its_own_shape():
    rows = (allocate(1, 2 * Q), allocate(2, 3 * Q), free(1, 2 * Q))
    rows += (execute(1, 12 * Q, flags=EventFlag.FAILED),)
    rows += (allocate(3, 3 * Q, program=1, detail=1),)
    rows += (failure(12 * Q, program=1, flags=EventFlag.RESERVE), free(3, 3 * Q))
    shapes = tuple(ShapeRecord(11, (n,), "{0}", n * Q, n * Q) for n in (2, 3))
    (device,) = summary_of(*rows, shapes=shapes).devices
    (own,) = [a for a in device.failures[0].in_the_way if a.program]
    assert (own.shape, own.bytes) == ("f32[3]", 3 * Q)


def test_moments_follow_each_other_in_time():
    rows = [allocate(1, Q)]
    for n in range(2, 40):
        rows += [execute(1, Q, time_ns=10 * n), allocate(n, Q, program=1, time_ns=10 * n + 5)]
        rows += [free(n, Q, time_ns=10 * n + 7)]
    times = [m.time_s for m in summary_of(*rows).devices[0].series]
    assert times == sorted(times)


def test_the_series_holds_the_fullest_moment_of_each_part():
    rows = []
    for n in range(1, 101):
        rows += [allocate(n, Q), free(n, Q)]
    (device,) = summary_of(*rows).devices
    assert {m.in_use_bytes for m in device.moments} == {Q}
    assert len(device.moments) == 12
    assert len(device.series) == 200
    assert device.peak_bytes == Q


def test_other_assumptions_are_not_tried_on_runs_that_are_too_long(monkeypatch):
    from vtpu.analysis.replay import summary as replay_summary
    from vtpu.analysis.run import failures

    monkeypatch.setattr(replay_summary, "MOST_UNASKED", 5)
    monkeypatch.setattr(failures, "MOST_UNASKED", 5)
    rows = [allocate(n, Q) for n in range(1, 9)] + [failure(99 * Q)]
    (device,) = summary_of(*rows).devices
    assert device.varied is None
    assert device.what_ifs  # of a failure they are what was asked for
    found = recording(*rows)
    (failed,) = failures.find_memory_failures(found, LineFinder(found))
    assert failed.what_ifs is None
