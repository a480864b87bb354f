"""The report of a replay."""

import io

from recordings import allocate, execute, free, recording
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
