"""The report of a replay."""

import io

from recordings import allocate, execute, free, program, recording, run_record
from vtpu.analysis.replay.allocators import choose_allocator
from vtpu.analysis.replay.summary import summarize_replay
from vtpu.analysis.run.summary import summarize
from vtpu.hbm import AllocatorName
from vtpu.recording.events import EventFlag, EventKind
from vtpu.report.document import Bytes, Count, Seconds, Share, Table
from vtpu.report.json_output import REPLAY_SCHEMA, replay_as_json
from vtpu.report.replay_report import replay_document
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document

Q = 512


def text_of(document):
    out = io.StringIO()
    print_document(document, out)
    return out.getvalue()


def in_pieces():
    """Arrays of 4 blocks, every second one freed; then a program wants 8."""
    rows = [allocate(n, 4 * Q, stack=1 + n % 2, address=10_000 - 4 * n * Q) for n in range(1, 5)]
    rows += [free(1, 4 * Q), free(3, 4 * Q), execute(1, 8 * Q, flags=EventFlag.FAILED, stack=2)]
    flags = EventFlag.RESERVE
    rows.append({
        "kind": EventKind.FAILURE, "bytes": 8 * Q, "program": 1, "flags": flags, "stack": 2
    })  # fmt: skip
    return recording(*rows)


def replayed(found, name=AllocatorName.TPU):
    return summarize_replay(found, choose_allocator(found, name))


def test_a_failure_is_told_with_what_lies_in_the_way_and_what_would_help():
    text = text_of(replay_document(replayed(in_pieces())))
    for words in (
        "not everything finds room",
        "Out of memory on device 0",
        "4.00 KiB for the temporaries of jit_step",
        "5.77 KiB: enough was free, but not in one piece (fragmentation)",
        "in the way",
        "what if: replayed",
        "`yes`: this request finds room then.",
        "it failed too",
        "assumed: ",
    ):
        assert words in text


def test_a_run_tells_the_same_of_its_failure():
    text = text_of(run_document(summarize(in_pieces())))
    for words in (
        "not in one piece",
        "in the way",
        "largest piece",
        "what if: replayed",
        "free at end",
    ):
        assert words in text


def test_memory_in_one_piece_is_not_said_to_be_in_pieces():
    text = text_of(run_document(summarize(recording(allocate(1, 512, address=9_488)))))
    assert "free at end" not in text


def test_every_table_with_figures_says_where_they_come_from():
    for name in AllocatorName:
        document = replay_document(replayed(in_pieces(), name))
        tables = [b for s in document.sections for b in s.blocks if isinstance(b, Table)]
        for table in tables:
            for i, column in enumerate(table.columns):
                kinds = (Bytes, Count, Seconds, Share)
                if any(isinstance(row[i], kinds) for row in table.rows):
                    assert column.basis, column.heading


def test_the_json_has_exact_integers():
    value = replay_as_json(replayed(in_pieces()))
    assert value["schema"] == REPLAY_SCHEMA
    (device,) = value["devices"]
    (failure,) = device["failures"]
    assert failure["free_bytes"] == 10_000 - 8 * Q
    assert failure["lack"] == "contiguous bytes"
    assert device["peak_bytes"] == 16 * Q
    assert all(type(m["in_use_bytes"]) is int for m in device["series"])


def test_the_device_that_fails_comes_first_and_the_others_have_a_row_each():
    rows = [allocate(1 + d, (1 + d) * Q, device=d) for d in range(4)]
    rows.append({"kind": EventKind.FAILURE, "bytes": 99 * Q, "device": 2, "stack": 1})
    text = text_of(replay_document(replayed(recording(*rows, run=run_record(4)))))
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings[3:] == [
        "Out of memory on device 2",
        "HBM over the run on device 2",
        "Other assumptions on device 2",
        "Other devices",
        "What this rests on",
    ]
    others = text[text.index("Other devices") :].splitlines()[2:5]
    assert [row.split()[:3] for row in others] == [
        ["3", "2.00", "KiB"],
        ["1", "1.00", "KiB"],
        ["0", "512", "B"],
    ]


def test_without_a_failure_the_fullest_device_is_shown():
    rows = [allocate(1 + d, (1 + d) * Q, device=d) for d in range(3)]
    text = text_of(replay_document(replayed(recording(*rows, run=run_record(3)))))
    assert "HBM over the run on device 2" in text


def test_programs_that_did_not_compile_are_named_where_everything_else_finds_room():
    programs = (program(1), program(2, "jit_huge", error="RESOURCE_EXHAUSTED: no room", key=""))
    replay = replayed(recording(allocate(1, Q), programs=programs))
    text = text_of(replay_document(replay))
    assert "1 program of the recorded run did not compile (jit_huge)" in text
    assert replay_as_json(replay)["not_compiled"] == ["jit_huge"]
    assert "did not compile" not in text_of(replay_document(replayed(recording(allocate(1, Q)))))
