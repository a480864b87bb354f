"""The report of a run: a document, its text, its JSON."""

import io
import json

import pytest

from recordings import LIMIT, allocate, execute, program, recording, run_record, stack
from vtpu.analysis.run.summary import summarize
from vtpu.recording.events import EventFlag, EventKind, MemoryKind
from vtpu.recording.recording import EndRecord
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


def section_of(found, heading):
    """The lines of a section of the report of a recording."""
    _, _, rest = text_of(run_document(summarize(found))).partition(f"\n\n{heading}\n")
    return rest.partition("\n\n")[0].splitlines()


def test_every_part_of_the_issue_is_in_the_report():
    text = text_of(run_document(summarize(busy()), "run.vtpu"))
    for heading in (
        "Run", "Problems", "Out of memory", "Programs", "HBM", "Transfers",
        "Compiled more than once", "Programs that did not compile", "Values",
        "Calls that are not simulated",
    ):  # fmt: skip
        assert heading in text.splitlines()
    for part in (
        "v5e-8 = v5e:2x4", " train.py:12", "host to device", "now f32[4] and before f32[3]",
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
    end = EndRecord(wall_s=0.6, memory=())
    text = text_of(run_document(summarize(recording(programs=(), end=end))))
    assert "jax_platforms" in text


def test_a_program_is_not_told_so_when_its_recording_is_cut():
    text = text_of(run_document(summarize(recording(programs=(), end=None))))
    assert "jax_platforms" not in text
    assert "in the part of the recording that can be read" in text


def test_a_program_that_did_not_compile_has_no_figures():
    failed = program(1, error="RESOURCE_EXHAUSTED: no room", key="")
    heading, row, *_ = section_of(recording(programs=(failed,)), "Programs")
    assert heading.split()[:2] == ["program", "compiles"]
    assert row.split()[:9] == ["jit_step", "failed", *"-------"]
    assert "0 compilations, 0 of them known from earlier; 1 more did not compile." in "\n".join(
        section_of(recording(programs=(failed,)), "Programs")
    )


def test_what_did_not_compile_before_is_why_it_was_compiled_again():
    failed = program(1, error="RESOURCE_EXHAUSTED: no room", key="")
    again = section_of(recording(programs=(failed, program(2))), "Compiled more than once")
    assert "(it did not compile before)" in again[1]
    assert "jax: reason" not in "\n".join(again)
    rows = section_of(recording(programs=(failed, program(2))), "Programs")
    assert rows[1].split()[:4] == ["jit_step", "1,", "1", "failed"]


def test_only_reasons_of_jax_are_called_so():
    programs = (program(1), program(2, reason="different input types"), program(3))
    again = section_of(recording(programs=programs), "Compiled more than once")
    assert again[1].endswith("different input types")
    assert again[2].endswith("(another shape, type, layout, sharding or device)")
    assert again[3:] == [
        "  jax: reason",
        "  A reason in brackets is from comparing the programs: JAX gave none.",
    ]


def test_a_recording_that_stops_early_says_how_much_it_covers():
    end = EndRecord(
        wall_s=0.6, memory=(), stops_early=True, problems=("the recording stops early",)
    )
    found = recording(allocate(1, 5, time_ns=200_000_000), end=end)
    assert "  covered         the first 200.0 ms of 600.0 ms" in section_of(found, "Run")
    (_, covers) = section_of(found, "Problems")
    assert "covers the first 200.0 ms of 600.0 ms: what is below counts nothing" in covers


def test_a_recording_without_an_end_covers_its_events():
    found = recording(allocate(1, 5, time_ns=1_500_000_000))
    assert "  covered         the first 1.50 s" in section_of(found, "Run")


def test_a_whole_recording_says_nothing_of_what_it_covers():
    found = recording(allocate(1, 5), end=EndRecord(wall_s=0.6, memory=()))
    assert "cover" not in text_of(run_document(summarize(found)))


def test_host_memory_is_shown_where_a_program_uses_some():
    far = program(1, host_argument_bytes=1 << 20, host_output_bytes=1 << 21)
    found = recording(allocate(1, 3 << 20, flags=MemoryKind.PINNED_HOST), programs=(far,))
    programs = section_of(found, "Programs")
    at = next(i for i, line in enumerate(programs) if line.startswith("  in host memory"))
    assert programs[at + 1].split() == [
        "jit_step",
        "1.00",
        "MiB",
        "2.00",
        "MiB",
        "0",
        "B",
        "0",
        "B",
    ]
    hbm = section_of(found, "HBM")
    at = next(i for i, line in enumerate(hbm) if "host memory at peak" in line)
    assert hbm[at + 1].split() == ["0", "3.00", "MiB", "3.00", "MiB"]
    assert "host memory" not in text_of(run_document(summarize(busy())))


def test_the_count_of_callbacks_that_saw_zeros_says_what_it_counts():
    callback = {"kind": EventKind.CALLBACK, "bytes": 8, "flags": EventFlag.FABRICATED}
    assert "called once per execution" in section_of(recording(callback), "Transfers")[-1]
    callback["flags"] = 0
    assert "called once" not in "\n".join(section_of(recording(callback), "Transfers"))


@pytest.mark.parametrize(
    ("asked", "name", "said"),
    [
        ("v5p:8x8x8", "v5p:8x8x8", "v5p-1024 = v5p:8x8x8 ("),
        ("v5litepod-16", "v5e:4x4", "v5litepod-16 = v5e-16 = v5e:4x4 ("),
        ("V5E-16", "v5e:4x4", "v5e-16 = v5e:4x4 ("),
        ("v9-3", "v9:of-a-later-release", "v9-3 = v9:of-a-later-release ("),
    ],
)
def test_a_slice_is_shown_with_its_cloud_name(asked, name, said):
    run = run_record(slice=name, slice_asked=asked)
    assert section_of(recording(run=run), "Run")[0].startswith(f"  slice           {said}")


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


def failing(number, **fields):
    return {"kind": EventKind.FAILURE, "bytes": number * LIMIT, **fields}


def test_a_request_that_fails_again_and_again_is_told_once():
    text = text_of(run_document(summarize(recording(*(failing(2, stack=1) for _ in range(500))))))
    assert text.splitlines().count("Out of memory") == 1
    assert "500; below is the first" in text


def test_requests_that_fail_at_many_lines_have_a_row_each_after_the_first_few():
    stacks = tuple(stack(("/project/train.py", n)) for n in range(1, 31))
    rows = (failing(2, stack=n) for n in range(1, 31))
    text = text_of(run_document(summarize(recording(*rows, stacks=stacks))))
    assert text.splitlines().count("Out of memory") == 3
    others = text.partition("\nOut of memory elsewhere\n")[2].partition("\n\n")[0].splitlines()
    assert "train.py:4" in others[1]
    assert others[-1].endswith("7 more rows are in the JSON report")
