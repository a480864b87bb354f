"""HBM over a run."""

from hypothesis import given
from hypothesis import strategies as st

from recordings import allocate, execute, free, program, recording, run_record
from vtpu.analysis.run.memory import alive_at, hbm_timeline, summarize_hbm
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.events import EventFlag, MemoryKind


def timeline(*rows, **parts):
    return hbm_timeline(recording(*rows, **parts), 0)


def test_buffers_add_up_and_go():
    found = timeline(allocate(1, 100), allocate(2, 50), free(1, 100))
    assert found.in_use.tolist() == [100, 150, 50]
    assert found.final_bytes == 50
    assert found.peak_bytes == 150


def test_host_memory_is_not_hbm():
    found = timeline(allocate(1, 100, flags=MemoryKind.PINNED_HOST), allocate(2, 7))
    assert found.peak_bytes == 7


def test_host_memory_has_a_peak_of_its_own():
    found = recording(
        allocate(1, 100, flags=MemoryKind.PINNED_HOST),
        allocate(2, 50, flags=MemoryKind.UNPINNED_HOST),
        free(1, 100, flags=MemoryKind.PINNED_HOST),
        allocate(3, 7),
    )
    (summary,) = summarize_hbm(found, LineFinder(found))
    assert (summary.host_in_use_bytes, summary.host_peak_bytes) == (50, 150)


def test_temporaries_count_when_the_outputs_have_their_memory():
    found = timeline(
        allocate(1, 100),
        execute(1, temp=1000),
        allocate(2, 30, program=1),
        allocate(3, 20, program=1),
        free(2, 30),
    )
    assert found.peak_bytes == 100 + 30 + 20 + 1000
    assert found.in_use[-1] == 120


def test_outputs_in_donated_memory_do_not_count_twice():
    found = timeline(
        allocate(1, 100),
        execute(1, temp=10),
        free(1, 100, flags=EventFlag.ALIASED),
        allocate(2, 100, flags=EventFlag.ALIASED, program=1),
    )
    assert found.peak_bytes == 110
    assert found.final_bytes == 100


def test_a_program_without_outputs_still_holds_its_temporaries():
    assert timeline(execute(1, temp=10), execute(1, temp=30)).peak_bytes == 30


def test_an_execution_that_failed_held_nothing():
    assert timeline(execute(1, temp=10**6, flags=EventFlag.FAILED)).peak_bytes == 0


def test_a_program_counts_only_on_its_own_devices():
    parts = {"run": run_record(2), "programs": (program(1, device_ids=(1,)),)}
    both = recording(execute(1, temp=500), **parts)
    assert hbm_timeline(both, 0).peak_bytes == 0
    assert hbm_timeline(both, 1).peak_bytes == 500


def test_a_run_without_events_has_no_peak():
    assert timeline().peak_bytes == 0
    (summary,) = summarize_hbm(recording(), LineFinder(recording()))
    assert summary.peak_bytes == summary.in_use_bytes == 0


def test_the_peak_names_its_program_and_its_line():
    rows = (
        allocate(1, 100, stack=2),
        execute(1, 1000, stack=1),
        allocate(2, 5, program=1, stack=1),
    )
    found = recording(*rows)
    (summary,) = summarize_hbm(found, LineFinder(found))
    assert summary.peak_bytes == 1105
    assert summary.peak_reserved_bytes == 1000
    assert summary.peak_program == "jit_step"
    assert str(summary.peak_line) == "/project/train.py:12"


def test_what_was_alive_is_grouped_by_line_and_shape():
    rows = (
        allocate(1, 100, stack=1),
        allocate(2, 100, stack=1),
        allocate(3, 500, stack=2, program=1),
        allocate(4, 9, stack=2),
        free(4, 9),
    )
    found = recording(*rows)
    groups = alive_at(found, 0, len(rows), LineFinder(found))
    assert [(g.bytes, g.count, str(g.line), g.program) for g in groups] == [
        (500, 1, "/project/data.py:3", "jit_step"),
        (200, 2, "/project/train.py:12", None),
    ]
    assert groups[0].shape == "f32[8,128]"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(1, 100)),
        st.tuples(st.just("free"), st.integers(0, 20)),
        st.tuples(
            st.just("execute"), st.integers(0, 300), st.lists(st.integers(1, 50), max_size=3)
        ),
    ),
    max_size=25,
)


@given(steps)
def test_the_timeline_agrees_with_counting_by_hand(some_steps):
    rows, live, peak, number = [], {}, 0, 0
    for kind, amount, *outputs in some_steps:
        if kind == "allocate":
            number += 1
            live[number] = amount
            rows.append(allocate(number, amount))
        elif kind == "free" and live:
            buffer = sorted(live)[amount % len(live)]
            rows.append(free(buffer, live.pop(buffer)))
        elif kind == "execute":
            rows.append(execute(1, amount))
            for size in outputs[0]:
                number += 1
                live[number] = size
                rows.append(allocate(number, size, program=1))
            peak = max(peak, sum(live.values()) + amount)
        peak = max(peak, sum(live.values()))
    found = timeline(*rows)
    assert found.peak_bytes == peak
    assert found.final_bytes == sum(live.values())
    assert sum(g.bytes for g in alive_at(recording(*rows), 0, len(rows), LineFinder(recording()))) \
        == sum(live.values())  # fmt: skip
