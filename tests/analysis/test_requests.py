"""What a run asked of a device's memory, as a stream."""

import numpy as np

from recordings import allocate, execute, free, program, recording, run_record
from vtpu.analysis.replay.requests import Attempt, RequestKind, holders, requests_of
from vtpu.recording.events import EventFlag, EventKind, MemoryKind

ALLOCATE, FREE, RUN, ATTEMPT = RequestKind
DONATED = EventFlag.ALIASED


def failure(size, **fields):
    return {"kind": EventKind.FAILURE, "bytes": size, **fields}


def rows_of(found, device=0):
    requests = requests_of(found, device)
    return [
        (RequestKind(kind), block, size)
        for kind, block, size in zip(
            requests.kind.tolist(), requests.block.tolist(), requests.size.tolist(), strict=True
        )
    ]


def test_an_execution_runs_when_its_outputs_are_placed():
    rows = (
        allocate(1, 512),
        execute(1, temp=1024),
        allocate(2, 512, program=1),
        allocate(3, 512, program=1),
        free(1, 512),
    )
    assert rows_of(recording(*rows)) == [
        (ALLOCATE, 1, 512),
        (ALLOCATE, 2, 512),
        (ALLOCATE, 3, 512),
        (RUN, 0, 1024),
        (FREE, 1, 512),
    ]


def test_donated_memory_is_asked_for_once_and_freed_with_its_last_owner():
    step = (execute(1), free(1, 512, flags=DONATED), allocate(2, 512, flags=DONATED, program=1))
    again = (execute(1), free(2, 512, flags=DONATED), allocate(3, 512, flags=DONATED, program=1))
    found = recording(allocate(1, 512), *step, *again, free(3, 512))
    assert rows_of(found) == [(ALLOCATE, 1, 512), (RUN, 0, 0), (RUN, 0, 0), (FREE, 1, 512)]
    assert holders(found, 0, len(found.events)) == {1: 6}


def test_a_donation_that_no_output_takes_over_frees_its_memory():
    found = recording(allocate(1, 512), execute(1), free(1, 512, flags=DONATED))
    assert rows_of(found)[-1] == (FREE, 1, 512)


def test_memory_of_the_host_and_arrays_without_bytes_are_not_asked_for():
    found = recording(allocate(1, 512, flags=MemoryKind.PINNED_HOST), allocate(2, 0))
    assert rows_of(found) == []


def test_an_execution_that_found_no_room_is_an_attempt_with_all_that_it_needs():
    rows = (
        execute(1, temp=2048, flags=EventFlag.FAILED),
        allocate(1, 512, program=1),
        failure(1024, program=1),
        free(1, 512),
    )
    wanted = program(
        1,
        output_bytes=512 + 1024 + 4096,
        temp_bytes=2048,
        output_shapes=("f32[128]{0:T(128)}", "f32[256]{0:T(256)}", "f32[8,128]{1,0:T(8,128)}"),
    )
    found = recording(*rows, programs=(wanted,))
    assert rows_of(found) == [(ATTEMPT, 0, 1024)]
    assert requests_of(found, 0).attempts == {2: Attempt((512, 1024, 4096), 2048)}


def test_outputs_of_unknown_size_count_as_one():
    rows = (execute(1, flags=EventFlag.FAILED), failure(1024, program=1))
    wanted = program(1, output_bytes=4096, output_shapes=("?", "?", "?"))
    found = recording(*rows, programs=(wanted,))
    assert requests_of(found, 0).attempts[1] == Attempt((1024, 3072))


def test_temporaries_that_found_no_room_end_an_attempt():
    rows = (
        execute(1, temp=2048, flags=EventFlag.FAILED),
        allocate(1, 512, program=1),
        failure(2048, program=1, flags=EventFlag.RESERVE),
        free(1, 512),
    )
    assert requests_of(recording(*rows), 0).attempts == {2: Attempt((512,), 2048)}


def test_devices_that_were_asked_for_the_same_are_alike():
    run = run_record(3)
    programs = (program(1, device_ids=(0, 1, 2)),)
    rows = [execute(1, temp=512)]
    rows += [allocate(10 + device, 512, device=device, program=1) for device in range(3)]
    rows.append(free(12, 512, device=2))
    found = recording(*rows, run=run, programs=programs)
    first, second, third = (requests_of(found, device).alike() for device in range(3))
    assert first == second != third


def test_a_stream_ends_at_the_event_that_is_looked_at():
    found = recording(allocate(1, 512), execute(1), allocate(2, 512, program=1), free(1, 512))
    requests = requests_of(found, 0)
    assert requests.until(1).event.tolist() == [0, 2, 1]
    assert np.array_equal(requests.until(99).event, requests.event)
