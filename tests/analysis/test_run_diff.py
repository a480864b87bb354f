"""Comparing two recordings: what differs is named, what is alike is left out."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from recordings import LIBRARY, allocate, execute, program, recording, run_record, stack
from vtpu.analysis.diff.changes import Change
from vtpu.analysis.diff.runs import diff_recordings
from vtpu.analysis.run.transfers import Direction
from vtpu.recording.events import EventFlag, EventKind
from vtpu.report.diff_report import run_diff_document
from vtpu.report.text import print_document


def sent(size: int, stack_number: int = 1):
    return {"kind": EventKind.HOST_TO_DEVICE, "bytes": size, "stack": stack_number}


rows = st.lists(
    st.one_of(
        st.builds(sent, st.integers(1, 99), st.integers(0, 2)),
        st.builds(lambda n: execute(n, 10, stack=1), st.integers(1, 3)),
        st.builds(lambda b, s: allocate(b, s, stack=1), st.integers(1, 99), st.integers(1, 500)),
        st.builds(
            lambda b: {"kind": EventKind.FAILURE, "bytes": b, "stack": 1}, st.integers(1, 99999)
        ),
    ),
    max_size=8,
)
programs = st.lists(
    st.builds(
        lambda name, size, key: (name, size, key),
        st.sampled_from(["jit_f", "jit_g"]),
        st.integers(0, 3),
        st.sampled_from(["", "k1", "k2"]),
    ),
    max_size=3,
).map(
    lambda found: tuple(
        program(n, name, argument_bytes=size, key=key, stack=n % 3)
        for n, (name, size, key) in enumerate(found, 1)
    )
)
runs = st.builds(
    lambda events, programs, slice_name: recording(
        *events, programs=programs, run=run_record(slice=slice_name)
    ),
    rows,
    programs,
    st.sampled_from(["v5e:2x4", "v5p:2x2x1"]),
)


@given(runs, runs)
def test_the_other_way_round_everything_is_the_other_way_round(before, after):
    assert diff_recordings(after, before) == -diff_recordings(before, after)


@given(runs)
def test_a_run_does_not_differ_from_itself(run):
    assert diff_recordings(run, run).is_empty


@given(runs, runs)
def test_the_differences_of_transfers_sum_to_that_of_all_transfers(before, after):
    def total(run):
        sends = run.events[run.events["kind"] == EventKind.HOST_TO_DEVICE]
        return int(sends["bytes"].sum())

    found = diff_recordings(before, after).transfers
    assert sum(pair.delta_bytes or 0 for pair in found) == total(after) - total(before)


def test_the_slice_and_the_releases_are_named():
    after = recording(run=run_record(slice="v5p:2x2x1", versions={"jax": "0.12", "libtpu": "1"}))
    settings = {s.name: (s.before, s.after) for s in diff_recordings(recording(), after).settings}
    assert settings == {
        "slice": ("v5e:2x4", "v5p:2x2x1"),
        "jax": ("0.10.2", "0.12"),
        "libtpu": (None, "1"),
    }


def test_a_transfer_is_known_again_at_another_line():
    before = recording(sent(100))
    moved = (stack((LIBRARY, 5), ("/project/train.py", 40)),)
    assert diff_recordings(before, recording(sent(100), stacks=moved)).is_empty

    (pair,) = diff_recordings(before, recording(sent(300), stacks=moved)).transfers
    assert (pair.change, pair.delta_bytes) == (Change.GROWN, 200)
    assert (pair.before.line.line, pair.after.line.line) == (12, 40)
    assert pair.before.direction is Direction.HOST_TO_DEVICE


def test_programs_are_compared_by_compiles_calls_and_sizes():
    before = recording(execute(1), programs=(program(1, argument_bytes=100),))
    after = recording(
        execute(1),
        execute(2),
        programs=(
            program(1, argument_bytes=100),
            program(2, argument_bytes=300, reason="another shape"),
            program(3, "jit_eval", argument_bytes=7),
        ),
    )
    step, evaluation = diff_recordings(before, after).programs
    assert (step.programs.change, step.programs.delta_bytes) == (Change.GROWN, 200)
    assert (step.programs.before.compiles, step.programs.after.compiles) == (1, 2)
    assert (step.programs.before.calls, step.programs.after.calls) == (1, 2)
    assert (evaluation.programs.change, evaluation.programs.delta_bytes) == (Change.NEW, 7)


def test_a_program_that_no_longer_compiles_has_no_size():
    before = recording(programs=(program(1, argument_bytes=100),))
    after = recording(programs=(program(1, error="RESOURCE_EXHAUSTED: too large"),))
    (step,) = diff_recordings(before, after).programs
    assert step.programs.after.bytes is None
    assert step.programs.delta_bytes is None
    assert step.programs.after.errors == ("RESOURCE_EXHAUSTED: too large",)


def test_devices_that_only_one_run_has_are_unknown_in_the_other():
    before = recording(allocate(1, 64), run=run_record(1))
    after = recording(allocate(1, 64), run=run_record(2))
    (device,) = diff_recordings(before, after).devices
    assert (device.device, device.peak_bytes.before, device.peak_bytes.after) == (1, None, 0)
    assert device.peak_bytes.delta is None


def test_a_request_that_failed_says_whether_it_was_for_an_output_or_for_temporaries():
    def failure(**fields: int):
        return {"kind": EventKind.FAILURE, "bytes": 20_000, "stack": 1, **fields}

    run = recording(failure(program=1), failure(program=1, flags=EventFlag.RESERVE), failure())
    found = diff_recordings(recording(), run)
    out = io.StringIO()
    print_document(run_diff_document(found, "a.vtpu", "b.vtpu"), out)
    for what in ("an output of jit_step", "temporaries of jit_step", "an array"):
        assert out.getvalue().count(f"  {what}  ") == 1
