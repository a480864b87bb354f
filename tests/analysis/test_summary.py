"""Programs, transfers, failures and values of a run."""

from recordings import LIMIT, allocate, events, execute, free, program, recording, stack
from vtpu.analysis.run.summary import summarize
from vtpu.analysis.run.transfers import Direction
from vtpu.recording.events import SOURCE_KIND_SHIFT, EventFlag, EventKind, MemoryKind

H2D, D2H, COPY = EventKind.HOST_TO_DEVICE, EventKind.DEVICE_TO_HOST, EventKind.COPY


def test_programs_of_one_name_are_counted_together():
    found = recording(
        execute(1),
        execute(1),
        execute(2),
        execute(2, flags=EventFlag.FAILED),
        programs=(
            program(1, argument_bytes=10, temp_bytes=5, compile_s=1.0),
            program(2, argument_bytes=90, alias_bytes=40, output_bytes=50, compile_s=2.0,
                    from_cache=True, reason="different input types"),
            program(3, "jit_eval"),
        ),
    )  # fmt: skip
    step, evaluate = summarize(found).programs
    assert (step.compiles, step.distinct, step.from_cache, step.calls) == (2, 2, 1, 3)
    assert step.need_bytes == 90 + 50 - 40
    assert step.compile_s == 3.0
    assert [c.reason for c in step.compilations] == [None, "different input types"]
    assert evaluate.calls == 0


def test_the_sizes_of_what_did_not_compile_are_unknown():
    found = recording(programs=(program(1, key="", error="no room"),))
    (step,) = summarize(found).programs
    assert (step.compiles, step.failed, step.distinct) == (0, 1, 0)
    assert step.argument_bytes is step.need_bytes is step.host_bytes is step.compile_s is None


def test_a_failed_compilation_is_no_compilation():
    failed = program(1, key="", error="no room")
    (step,) = summarize(recording(programs=(failed, program(2, temp_bytes=7)))).programs
    assert (step.compiles, step.failed, step.distinct, step.need_bytes) == (1, 1, 1, 7)


def test_the_same_program_twice_is_one_distinct_program():
    found = recording(programs=(program(1, key="same"), program(2, key="same")))
    (step,) = summarize(found).programs
    assert (step.compiles, step.distinct) == (2, 1)


def test_transfers_are_grouped_by_direction_and_line():
    to_host = MemoryKind.PINNED_HOST
    from_host = MemoryKind.PINNED_HOST << SOURCE_KIND_SHIFT
    found = recording(
        {"kind": H2D, "bytes": 10, "stack": 1},
        {"kind": H2D, "bytes": 30, "stack": 1},
        {"kind": H2D, "bytes": 100, "stack": 2},
        {"kind": D2H, "bytes": 4, "stack": 1},
        {"kind": COPY, "bytes": 7, "stack": 1, "flags": to_host},
        {"kind": COPY, "bytes": 8, "stack": 1, "flags": from_host},
        {"kind": COPY, "bytes": 9, "stack": 1},
        {"kind": COPY, "bytes": 1000, "stack": 1, "flags": to_host | from_host},
    )
    rows = [(t.direction, t.count, t.bytes, t.largest_bytes) for t in summarize(found).transfers]
    assert rows == [
        (Direction.HOST_TO_DEVICE, 1, 100, 100),
        (Direction.HOST_TO_DEVICE, 3, 48, 30),
        (Direction.DEVICE_TO_HOST, 2, 11, 7),
        (Direction.DEVICE_TO_DEVICE, 1, 9, 9),
        (Direction.HOST_TO_HOST, 1, 1000, 1000),
    ]


def test_what_goes_to_or_from_host_memory_crosses_no_link():
    found = recording(
        {"kind": H2D, "bytes": 10, "flags": MemoryKind.PINNED_HOST},
        {"kind": H2D, "bytes": 20, "flags": MemoryKind.UNPINNED_HOST},
        {"kind": D2H, "bytes": 40, "flags": MemoryKind.PINNED_HOST | EventFlag.FABRICATED},
    )
    (row,) = summarize(found).transfers
    assert (row.direction, row.count, row.bytes) == (Direction.HOST_TO_HOST, 3, 70)


def test_lines_that_looked_at_values_nobody_computed_are_listed():
    found = recording(
        {"kind": D2H, "bytes": 4, "stack": 1, "flags": EventFlag.FABRICATED},
        {"kind": D2H, "bytes": 4, "stack": 1, "flags": EventFlag.FABRICATED},
        {"kind": EventKind.CALLBACK, "bytes": 8, "stack": 2, "flags": EventFlag.FABRICATED},
        {"kind": D2H, "bytes": 4, "stack": 2},
    )
    values = summarize(found).fabricated_values
    assert [(v.how, v.count, v.bytes) for v in values] == [("read", 2, 8), ("callback", 1, 8)]


def test_a_request_larger_than_what_is_free_is_a_lack_of_bytes():
    found = recording(
        allocate(1, LIMIT - 10, stack=2),
        {"kind": EventKind.FAILURE, "bytes": 20, "stack": 1},
    )
    (failure,) = summarize(found).failures
    assert failure.free_bytes == 10
    assert not failure.is_fragmentation
    assert str(failure.alive[0].line) == "/project/data.py:3"


def test_a_request_smaller_than_what_is_free_failed_by_fragmentation():
    found = recording(
        allocate(1, 100),
        allocate(2, 100),
        free(1, 100),
        {"kind": EventKind.FAILURE, "bytes": 200, "flags": EventFlag.RESERVE, "program": 1},
    )
    (failure,) = summarize(found).failures
    assert failure.is_fragmentation
    assert failure.is_reservation
    assert failure.program == "jit_step"


def test_unsupported_calls_have_their_name_and_line():
    call = {"kind": EventKind.UNSUPPORTED, "detail": 1, "stack": 2}
    (found,) = summarize(recording(call, call)).unsupported_calls
    assert (found.function, found.count) == ("PJRT_Second", 2)


def test_a_recording_without_an_end_says_that_the_program_was_killed():
    summary = summarize(recording())
    assert summary.run.was_cut
    assert "killed, crashed or called os._exit" in summary.problems[0]


def test_the_whole_summary_of_an_empty_recording_is_empty():
    summary = summarize(recording(programs=(), events=events(), stacks=(stack(),)))
    assert summary.programs == summary.transfers == summary.failures == ()
