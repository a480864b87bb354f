"""The file of a recording: loads back exactly, and up to the cut when it was cut."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtpu.recording.events import EVENT_DTYPE, NUM_FIRST_COLUMNS
from vtpu.recording.file import (
    MAGIC,
    NotARecording,
    RecordingWriter,
    append_exit_code,
    encode_chunk,
    load_recording,
    parse_recording,
)
from vtpu.recording.recording import (
    DeviceMemory,
    DeviceRecord,
    EndRecord,
    ProgramRecord,
    RunRecord,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
size = st.integers(0, 2**50)
stacks = st.lists(st.lists(st.tuples(text, text, st.integers(0, 10**6)), max_size=4), max_size=4)
shapes = st.lists(
    st.tuples(st.integers(1, 29), st.lists(size, max_size=4).map(tuple), text, size, size),
    max_size=4,
)
programs = st.builds(
    ProgramRecord,
    number=st.integers(1, 2**31),
    name=text,
    key=text,
    stack=st.integers(0, 2**31),
    device_ids=st.lists(st.integers(0, 300_000), max_size=4).map(tuple),
    argument_bytes=size,
    flops=st.none() | st.floats(allow_nan=False),
    compile_s=st.none() | st.floats(0, 1e6),
    from_cache=st.booleans(),
    reason=st.none() | text,
    error=st.none() | text,
    parameter_shapes=st.lists(text, max_size=3).map(tuple),
    locations=st.lists(text, max_size=3).map(tuple),
    hlo=st.binary(max_size=50),
)
RUN = RunRecord(
    slice="v5e:2x4",
    slice_asked="v5e-8",
    host=0,
    num_hosts=1,
    devices=(DeviceRecord(id=0, host=0, kind="TPU v5 lite", coords=(0, 0, 0)),),
    hbm_bytes=16_909_332_480,
    platform_version="TFRT",
    versions={"jax": "0"},
    command=("python", "train.py"),
    folder="",
    started_unix_s=0.5,
    library_folders=("lib",),
    function_names=("PJRT_X",),
)
END = EndRecord(
    wall_s=1.5,
    memory=(
        DeviceMemory(
            device=0, in_use=1, peak_in_use=2, peak_total=3, peak_event=4, limit=5,
            largest_free=6, reservable=7, host_in_use=8, host_peak=9,
        ),
    ),
    problems=("a problem",),
)  # fmt: skip


def random_events(count, seed=0):
    raw = np.random.default_rng(seed).bytes(count * EVENT_DTYPE.itemsize)
    return np.frombuffer(raw, EVENT_DTYPE)


def write(parts, end=END):
    file = io.BytesIO()
    writer = RecordingWriter(file, RUN)
    for some_stacks, some_shapes, some_programs, count in parts:
        writer.stacks(some_stacks)
        writer.shapes(some_shapes)
        for program in some_programs:
            writer.program(program)
        writer.events(random_events(count, count))
    if end:
        writer.end(end)
    return file.getvalue()


parts = st.lists(
    st.tuples(stacks, shapes, st.lists(programs, max_size=2), st.integers(0, 50)), max_size=3
)


@given(parts)
@settings(max_examples=60)
def test_a_recording_loads_back_exactly(some_parts):
    loaded = parse_recording(write(some_parts))
    assert loaded.run == RUN
    assert loaded.end == END
    assert [[(f.file, f.function, f.line) for f in s] for s in loaded.stacks] == [
        s for part in some_parts for s in part[0]
    ]
    assert [
        (s.element_type, s.dims, s.layout, s.logical_bytes, s.device_bytes) for s in loaded.shapes
    ] == [s for part in some_parts for s in part[1]]
    assert list(loaded.programs) == [p for part in some_parts for p in part[2]]
    expected = [random_events(part[3], part[3]) for part in some_parts]
    assert np.array_equal(loaded.events, np.concatenate([np.empty(0, EVENT_DTYPE), *expected]))
    assert loaded.problems == ()


@given(parts, st.data())
@settings(max_examples=60)
def test_a_cut_file_loads_up_to_the_cut_and_says_so(some_parts, data):
    whole = write(some_parts)
    start = len(write([], end=None))  # magic and the run are whole
    cut = data.draw(st.integers(start, len(whole) - 1))
    loaded = parse_recording(whole[:cut])
    full = parse_recording(whole)
    assert loaded.run == full.run
    assert loaded.stacks == full.stacks[: len(loaded.stacks)]
    assert loaded.programs == full.programs[: len(loaded.programs)]
    assert np.array_equal(loaded.events, full.events[: len(loaded.events)])
    assert loaded.end is None


def test_a_damaged_byte_ends_the_reading_and_is_reported():
    whole = bytearray(write([([], [], [], 50)]))
    whole[-30] ^= 0xFF
    loaded = parse_recording(bytes(whole))
    assert loaded.end is None
    assert "damaged" in loaded.problems[0]


@pytest.mark.parametrize("data", [b"something else entirely", b"vtpu recording 9\n"])
def test_what_is_not_a_recording_is_refused_with_what_to_do(data):
    with pytest.raises(NotARecording, match="vtpu run"):
        parse_recording(data)


def test_an_empty_file_is_said_to_be_empty():
    with pytest.raises(NotARecording, match="nothing was recorded"):
        parse_recording(b"")


def test_a_file_that_does_not_say_what_ran_is_refused():
    with pytest.raises(NotARecording, match="before it said what ran"):
        parse_recording(write([])[:40])


def test_a_recording_of_the_first_form_loads_and_does_not_know_the_new_columns():
    names = EVENT_DTYPE.names or ()
    known, unknown = names[:NUM_FIRST_COLUMNS], names[NUM_FIRST_COLUMNS:]
    events = random_events(40)
    columns = b"".join(np.ascontiguousarray(events[name]).tobytes() for name in known)
    first = write([]).replace(MAGIC, b"vtpu recording 1\n") + encode_chunk(b"EVTS", columns)
    loaded = parse_recording(first)
    assert (loaded.run, loaded.end, loaded.problems) == (RUN, END, ())
    for name in known:
        assert np.array_equal(loaded.events[name], events[name])
    assert unknown == ("thread", "cpu_ns", "awaits_execution", "awaits_transfer")
    assert not loaded.events["thread"].any()
    assert (loaded.events["cpu_ns"] == -1).all()


def test_the_exit_code_can_be_added_to_a_finished_file(tmp_path):
    path = tmp_path / "run.vtpu"
    path.write_bytes(write([]))
    append_exit_code(path, -9)
    assert load_recording(path).exit_code == -9


def test_chunks_of_a_later_version_are_passed_over():
    loaded = parse_recording(write([]) + encode_chunk(b"NEW_", b"something"))
    assert loaded.end == END
    assert loaded.problems == ()
