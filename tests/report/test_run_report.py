"""The report of a run: a document, its text, its JSON."""

import io
import json

from recordings import LIMIT, allocate, execute, program, recording
from vtpu.analysis.summary import summarize
from vtpu.recording.events import EventFlag, EventKind
from vtpu.report.document import Document, Section, Table
from vtpu.report.json_output import RUN_BASIS, RUN_SCHEMA, run_as_json, run_json_schema
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document


def busy():
    return recording(
        allocate(1, 2048, stack=1),
        execute(1, 100, stack=1),
        {"kind": EventKind.HOST_TO_DEVICE, "bytes": 512, "stack": 1},
        {"kind": EventKind.DEVICE_TO_HOST, "bytes": 4, "stack": 2, "flags": EventFlag.FABRICATED},
        {"kind": EventKind.FAILURE, "bytes": 2 * LIMIT, "stack": 1},
        {"kind": EventKind.UNSUPPORTED, "detail": 0, "stack": 2},
        programs=(
            program(1, argument_bytes=1 << 30, temp_bytes=1 << 20),
            program(2, reason="different input types:\n* at x, now f32[4] and before f32[3]"),
            program(3, "jit_big", error="RESOURCE_EXHAUSTED: out of memory"),
        ),
    )


def text_of(document):
    out = io.StringIO()
    print_document(document, out)
    return out.getvalue()


def test_every_part_of_the_issue_is_in_the_report():
    text = text_of(run_document(summarize(busy()), "run.vtpu"))
    for heading in (
        "Run", "Problems", "Out of memory", "Programs", "HBM", "Transfers",
        "Compiled more than once", "Programs that did not compile", "Simulated values",
        "Calls that are not simulated",
    ):  # fmt: skip
        assert heading in text.splitlines()
    for part in (
        "v5e-8 = v5e:2x4", "/work/train.py:12", "host to device", "now f32[4] and before f32[3]",
        "PJRT_First", "run.vtpu", "1.00 GiB", "RESOURCE_EXHAUSTED",
    ):  # fmt: skip
        assert part in text


def test_piped_text_has_no_escape_codes_and_is_not_cut():
    text = text_of(run_document(summarize(busy())))
    assert "\x1b" not in text
    assert "…" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_every_table_with_figures_says_where_they_come_from():
    document = run_document(summarize(busy()))
    tables = [b for s in document.sections for b in s.blocks if isinstance(b, Table)]
    for table in tables:
        numbers = [
            column
            for i, column in enumerate(table.columns)
            if any(
                type(row[i]).__name__ in ("Bytes", "Seconds", "Count", "Share")
                for row in table.rows
            )
        ]
        assert all(column.basis for column in numbers), [c.heading for c in table.columns]


def test_an_unknown_cell_is_called_unknown_and_not_zero():
    from vtpu.report.document import Column

    table = Table((Column("a"),), ((None,),))
    assert "unknown" in text_of(Document("t", (Section("s", (table,)),)))


def test_a_program_that_never_used_the_slice_is_told_why_that_may_be():
    text = text_of(run_document(summarize(recording(programs=()))))
    assert "jax_platforms" in text


def test_json_has_exact_integers_and_its_schema():
    value = run_as_json(summarize(busy()))
    assert value["schema"] == RUN_SCHEMA
    assert value["programs"][0]["argument_bytes"] == 1 << 30
    assert value["failures"][0]["wanted_bytes"] == 2 * LIMIT
    json.dumps(value)


def test_json_follows_the_schema_that_is_published():
    schema = run_json_schema()
    value = run_as_json(summarize(busy()))
    assert set(schema["properties"]) == set(value)
    program_fields = schema["$defs"]["ProgramSummary"]["properties"]
    assert set(program_fields) == set(value["programs"][0])


def test_every_basis_names_a_field_that_exists():
    value = run_as_json(summarize(busy()))
    for path in RUN_BASIS:
        head, *rest = path.split(".")
        assert head in value
        part = value[head]
        for name in rest:
            part = part[0] if isinstance(part, list) else part
            matching = [k for k in part if k == name or (name[0] == "*" and k.endswith(name[1:]))]
            assert matching, path
            part = part[matching[0]]
