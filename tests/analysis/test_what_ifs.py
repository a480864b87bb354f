"""What would have helped: each change is a stream of its own, and its replay is the answer."""

import pytest

from recordings import LIMIT, allocate, execute, free, program, recording
from vtpu.analysis.replay.replay import replay
from vtpu.analysis.replay.requests import RequestKind, requests_of
from vtpu.analysis.replay.what_if_context import Context
from vtpu.analysis.replay.what_if_donated import donations
from vtpu.analysis.replay.what_if_sizes import batching, bucketing
from vtpu.analysis.replay.what_if_times import freeing_earlier, freeing_unused, reordering
from vtpu.analysis.replay.what_ifs import find_what_ifs
from vtpu.analysis.source_lines import LineFinder
from vtpu.hbm import Arena
from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import ShapeRecord

Q = 512
TAKES_AND_GIVES = {"parameter_shapes": ("f32[8,128]{1,0}",), "output_bytes": 4 * Q}


def failure(size, **fields):
    return {"kind": EventKind.FAILURE, "bytes": size, **fields}


def context_of(*rows, event=None, **parts):
    found = recording(*rows, **parts)
    last = len(rows) - 1 if event is None else event
    return Context(
        recording=found,
        device=0,
        requests=requests_of(found, 0).until(last),
        event=last,
        lines=LineFinder(found),
    )


def sizes_of(requests):
    rows = zip(requests.kind.tolist(), requests.block.tolist(), requests.size.tolist(), strict=True)
    return [(RequestKind(kind).name.lower(), block, size) for kind, block, size in rows]


def what_ifs(run, *, failed=True):
    found = find_what_ifs(run, lambda: Arena(LIMIT), failed=failed)
    return {w.kind: w for w in found}


# ---- donation ----------------------------------------------------------------------------------


def training(steps):
    """`state = step(state)` without donation, of a state of 4 blocks."""
    rows = [allocate(1, 4 * Q)]
    for n in range(1, steps + 1):
        rows += [execute(1, 2 * Q), allocate(n + 1, 4 * Q, program=1), free(n, 4 * Q)]
    return rows


def test_an_argument_that_dies_with_the_call_gives_its_memory_to_the_output():
    run = context_of(*training(3), programs=(program(1, **TAKES_AND_GIVES),))
    (change,) = donations(run)
    assert sizes_of(change.requests) == [
        ("allocate", 1, 4 * Q),
        ("run", 0, 2 * Q),
        ("run", 0, 2 * Q),
        ("run", 0, 2 * Q),
    ]
    assert change.what == "donate the arguments f32[8,128] to jit_step"
    assert replay(run.requests, Arena(LIMIT)).peak_bytes == 10 * Q
    assert replay(change.requests, Arena(LIMIT)).peak_bytes == 6 * Q


@pytest.mark.parametrize(
    "parameters",
    [
        {"parameter_shapes": ("f32[9,128]{1,0}",)},
        {"parameter_shapes": ("f32[8,128]{1,0}",), "donated_parameters": (0,)},
    ],
)
def test_nothing_is_donated_that_no_free_parameter_takes(parameters):
    run = context_of(*training(3), programs=(program(1, **parameters),))
    assert list(donations(run)) == []


def test_what_another_program_or_the_host_uses_later_is_not_donated():
    rows = [allocate(1, 4 * Q), execute(1), allocate(2, 4 * Q, program=1)]
    programs = (program(1, **TAKES_AND_GIVES),)
    used = [*rows, execute(1), free(1, 4 * Q)]
    assert list(donations(context_of(*used, programs=programs))) == []
    looked = [*rows, {"kind": EventKind.DEVICE_TO_HOST, "subject": 1}, free(1, 4 * Q)]
    assert list(donations(context_of(*looked, programs=programs))) == []


def test_donation_to_the_execution_that_found_no_room_avoids_it():
    rows = (
        allocate(1, 12 * Q),
        execute(1, flags=EventFlag.FAILED),
        failure(12 * Q, program=1),
    )
    step = program(1, parameter_shapes=("f32[8,128]{1,0}",), output_bytes=12 * Q)
    run = context_of(*rows, programs=(step,))
    found = what_ifs(run)["donation"]
    assert found.avoids_failure
    assert found.peak_bytes == 12 * Q
    assert found.what.endswith("to jit_step (if nothing needs them later)")
    assert len(replay(run.requests, Arena(LIMIT)).failures) == 1


# ---- batching, bucketing -----------------------------------------------------------------------


def test_arrays_that_are_alive_together_are_placed_as_one_and_freed_with_the_last():
    rows = [allocate(n, Q, stack=1) for n in range(1, 9)]
    rows += [free(n, Q) for n in (3, 1, 2, 4, 5, 6, 8, 7)]
    (change,) = batching(context_of(*rows))
    assert sizes_of(change.requests) == [("allocate", 1, 8 * Q), ("free", 1, Q)]
    assert str(change.line) == "/project/train.py:12"
    result = replay(change.requests, Arena(LIMIT))
    assert result.in_use.tolist() == [8 * Q, 0]


def test_arrays_that_replace_each_other_are_not_batched():
    rows = [allocate(1, Q, stack=1)]
    for n in range(2, 40):
        rows += [allocate(n, Q, stack=1), free(n - 1, Q)]
    assert list(batching(context_of(*rows))) == []


def test_sizes_of_a_line_are_padded_to_the_largest_or_to_powers_of_two():
    rows = []
    for n, size in enumerate((1, 3, 5, 2), start=1):
        rows += [allocate(n, size * Q, stack=2)]
    to_largest, to_powers = bucketing(context_of(*rows))
    assert to_largest.requests.size.tolist() == [5 * Q] * 4
    assert to_powers.requests.size.tolist() == [1 * Q, 4 * Q, 5 * Q, 2 * Q]


def test_outputs_of_one_program_that_differ_from_each_other_do_not_vary():
    rows = []
    for n in range(1, 13, 3):
        rows += [execute(1), *(allocate(n + i, (1 + i) * Q, program=1) for i in range(3))]
    assert list(bucketing(context_of(*rows))) == []


def test_temporaries_grow_with_their_bucket():
    rows = []
    for n, size in enumerate((1, 2, 3), start=1):
        rows += [execute(n, size * 2 * Q), allocate(n, size * Q, program=n)]
    programs = tuple(program(n) for n in (1, 2, 3))
    to_largest, _ = bucketing(context_of(*rows, programs=programs, event=len(rows) - 2))
    assert to_largest.requests.size.tolist() == [3 * Q, 6 * Q] * 3


# ---- memory then ----


def test_memory_then_is_that_after_all_requests_also_where_the_last_one_is_changed_away():
    """The moment is the free of an argument, which donation and batching take out of the stream."""
    run = context_of(*training(3), programs=(program(1, **TAKES_AND_GIVES),))
    assert what_ifs(run, failed=False)["donation"].largest_free_bytes == LIMIT - 4 * Q
    rows = [allocate(n, Q, stack=1) for n in range(1, 9)] + [allocate(9, Q), free(1, Q)]
    assert what_ifs(context_of(*rows), failed=False)["batching"].largest_free_bytes == LIMIT - 9 * Q


def test_memory_then_is_that_after_all_requests_also_where_the_last_one_is_moved():
    rows = (allocate(1, Q), allocate(2, 4 * Q), allocate(3, Q), free(1, Q))
    found = what_ifs(context_of(*rows), failed=False)["freeing earlier"]
    assert found.largest_free_bytes == LIMIT - 5 * Q


def test_donated_shapes_are_named_largest_first_and_many_of_them_counted():
    shapes = tuple(ShapeRecord(11, (n,), "{0}", n * Q, n * Q) for n in range(1, 7))
    rows = []
    for n in range(1, 7):
        rows += [allocate(2 * n, n * Q, detail=n - 1), execute(n)]
        rows += [allocate(2 * n + 1, n * Q, program=n), free(2 * n, n * Q, detail=n - 1)]
        rows += [free(2 * n + 1, n * Q)]
    programs = tuple(program(n, parameter_shapes=(f"f32[{n}]{{0}}",)) for n in range(1, 7))
    (change,) = donations(context_of(*rows, shapes=shapes, programs=programs))
    assert (
        change.what
        == "donate the arguments f32[6], f32[5], f32[4] and of 3 more shapes to jit_step"
    )


# ---- order and time ----------------------------------------------------------------------------


def holes():
    """Arrays of 2 blocks, of which every second one stays; then 6 are wanted and 9 are free."""
    rows = [allocate(n, 2 * Q, stack=1 + n % 2) for n in range(1, 10)]
    return [*rows, *(free(n, 2 * Q) for n in (2, 4, 6, 8)), failure(6 * Q)]


def test_what_stays_is_placed_before_what_comes_and_goes():
    run = context_of(*holes())
    (change,) = reordering(run)
    assert change.requests.block.tolist()[:9] == [1, 3, 5, 7, 9, 2, 4, 6, 8]
    found = what_ifs(run)["reordering"]
    assert found.avoids_failure
    assert found.largest_free_bytes == LIMIT - 10 * Q


def test_an_update_is_not_made_before_what_it_replaces():
    rows = (allocate(1, Q), execute(1), allocate(2, 4 * Q, program=1), free(1, Q), failure(99 * Q))
    assert len(list(reordering(context_of(*rows)))) == 1
    step = program(1, parameter_shapes=("f32[8,128]{1,0}",))
    assert list(reordering(context_of(*rows, programs=(step,)))) == []


def test_what_stays_is_first_already():
    assert list(reordering(context_of(allocate(1, Q), failure(99 * Q)))) == []


def test_an_array_goes_as_soon_as_nothing_can_use_it():
    shapes = tuple(ShapeRecord(11, (n,), "{0}", Q, Q) for n in (1, 2))
    rows = (
        allocate(1, Q, detail=0),
        allocate(2, Q, detail=1),
        execute(1),
        {"kind": EventKind.DEVICE_TO_HOST, "subject": 2},
        allocate(3, Q, detail=0),
        free(1, Q),
        free(2, Q),
    )
    programs = (program(1, parameter_shapes=("f32[1]{0}",)),)
    (change,) = freeing_earlier(context_of(*rows, shapes=shapes, programs=programs))
    assert sizes_of(change.requests) == [
        ("allocate", 1, Q),
        ("allocate", 2, Q),
        ("run", 0, 0),
        ("free", 1, Q),
        ("allocate", 3, Q),
        ("free", 2, Q),
    ]


def test_an_output_is_in_use_until_its_program_ran():
    rows = (execute(1, Q), allocate(1, Q, program=1), allocate(2, Q), free(1, Q))
    (change,) = freeing_earlier(context_of(*rows))
    assert [kind for kind, *_ in sizes_of(change.requests)] == [
        "allocate",
        "run",
        "free",
        "allocate",
    ]


def test_what_nothing_used_for_half_of_the_run_could_go_unless_it_is_needed_later():
    rows = [allocate(1, 18 * Q), *(allocate(2, Q), free(2, Q)), failure(9 * Q)]
    run = context_of(*rows)
    (change,) = freeing_unused(run)
    assert sizes_of(change.requests)[1] == ("free", 1, 18 * Q)
    found = what_ifs(run)["freeing unused arrays"]
    assert found.avoids_failure
    assert "if the program still needs it" in found.what


def test_donated_blocks_are_not_freed_earlier():
    donated = EventFlag.ALIASED
    rows = (
        allocate(1, Q),
        execute(1),
        free(1, Q, flags=donated),
        allocate(2, Q, flags=donated, program=1),
        allocate(3, Q),
        allocate(4, Q),
        free(2, Q),
    )
    assert list(freeing_earlier(context_of(*rows))) == []


# ---- answers -----------------------------------------------------------------------------------


def test_what_helps_comes_first_and_where_nothing_failed_nothing_is_avoided():
    run = context_of(*holes())
    verdicts = [w.avoids_failure for w in find_what_ifs(run, lambda: Arena(LIMIT), failed=True)]
    assert verdicts == sorted(verdicts, reverse=True)
    assert {w.avoids_failure for w in what_ifs(run, failed=False).values()} == {None}


def test_no_change_loses_or_adds_a_byte_at_the_end_but_those_that_free_or_pad():
    run = context_of(*holes())
    end = replay(run.requests, Arena(LIMIT)).in_use[-1]
    for kind in (donations, batching, reordering, freeing_earlier):
        for change in kind(run):
            assert replay(change.requests, Arena(LIMIT)).in_use[-1] == end
