"""Padding and fragmentation as people read them."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memories import Step, arguments_of, heap_of
from vtpu.analysis.program.fragmentation import analyse_fragmentation
from vtpu.analysis.program.memory import analyse_memory
from vtpu.analysis.program.padding import Cause, PaddingKind, analyse_padding
from vtpu.analysis.program.report import Origin, report_program
from vtpu.program.memory import ProgramMemory
from vtpu.program.shapes import ArrayShape, parse_shape
from vtpu.report.document import Bytes, Column, Count, Document, Section, Share, Table
from vtpu.report.fragmentation_sections import fragmentation_sections
from vtpu.report.padding_sections import cause_text, padding_sections
from vtpu.report.program_report import program_sections
from vtpu.report.source_text import Sources
from vtpu.report.text import print_document

LOG = (
    "Program hbm requirement 1M:\n    HLO temp 1M (9% utilization: Unpadded (1M) Padded (1M), "
    "9.9% fragmentation (96.0K))\n"
)
SLOT = 16384
STEPS = [
    Step("A", 0, 4 * SLOT), Step("A", 1, 4 * SLOT), Step("F", 0), Step("A", 2, 8 * SLOT),
    Step("F", 1), Step("F", 2),
]  # fmt: skip
MERGED = {0: 0, 1: 4 * SLOT, 2: 8 * SLOT}


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def padding_of(*texts: str, extra_bytes: int = 0) -> tuple[Section, ...]:
    memory = arguments_of([shape_of(t) for t in texts], extra_bytes)
    return padding_sections(analyse_padding(analyse_memory(memory)), Sources("").line)


def packing_of(memory: ProgramMemory, *, exact: bool = False) -> tuple[Section, ...]:
    return fragmentation_sections(
        analyse_fragmentation(memory, analyse_memory(memory), exact=exact)
    )


def text_of(sections: tuple[Section, ...]) -> str:
    file = io.StringIO()
    print_document(Document("x", sections), file)
    return file.getvalue()


def unfounded(sections: tuple[Section, ...]) -> list[Column]:
    """Columns that show figures and no basis."""
    tables = [b for s in sections for b in s.blocks if isinstance(b, Table)]
    return [
        column
        for table in tables
        for n, column in enumerate(table.columns)
        if any(isinstance(row[n], Bytes | Count | Share) for row in table.rows) and not column.basis
    ]


def test_padding_names_the_array_the_dimension_and_sizes_that_fill_the_tile() -> None:
    sections = padding_of("f32[1000,200]{1,0:T(8,128)}")
    text = text_of(sections)
    assert "params[0]" in text
    assert "minor dimension 1: 200 to 256 by tile (8,128)" in text
    assert "128 or 256" in text
    assert unfounded(sections) == []


def test_where_nothing_pads_there_is_no_section() -> None:
    assert padding_of("f32[8,128]{1,0:T(8,128)}") == ()


def test_a_size_that_is_not_explained_is_a_warning() -> None:
    assert "does not follow from the layout" in text_of(padding_of("f32[8,128]{1,0:T(8,128)}", extra_bytes=8))  # fmt: skip


def test_causes_that_are_no_dimension_have_words_of_their_own() -> None:
    scalar = Cause(PaddingKind.SCALAR, None, 1, 128, 128)
    assert cause_text(scalar, (128,)) == "scalar: 1 to 128 elements by tile (128)"
    wide = Cause(PaddingKind.STORAGE, None, 4, 8, 8)
    assert cause_text(wide, (1024,)) == "elements stored wider: 4 bits in 8"


def test_a_fragmented_heap_shows_its_algorithm_gaps_and_what_to_try() -> None:
    sections = packing_of(heap_of(STEPS, MERGED, tables=2, log=LOG), exact=True)
    text = text_of(sections)
    assert "Packed by FAST_MERGE, starts aligned to 16.00 KiB" in text
    assert "all 3 buffers" in text
    assert "xla_tpu_buffer_assignment_algorithm=SPATIAL" in text
    assert "an estimate until it is compiled" in text
    assert "libtpu's log says 96.00 KiB" in text
    assert "An independent checker finds it legal" in text
    assert "hole" in text
    assert unfounded(sections) == []


def test_an_unknown_packing_is_said_to_be_unknown() -> None:
    text = text_of(packing_of(heap_of(STEPS, {0: 16 * SLOT, 1: 4 * SLOT, 2: 8 * SLOT})))
    assert "an algorithm that is not known" in text
    assert "of 3 buffers where the compiler put them" in text


def test_a_heap_that_cannot_be_judged_shows_unknowns_and_never_zeros() -> None:
    sections = packing_of(heap_of(STEPS, {0: 0, 1: 0, 2: 8 * SLOT}))
    text = text_of(sections)
    assert "cannot be judged" in text
    (parts,) = (b for b in sections[0].blocks if isinstance(b, Table))
    assert parts.rows[0][1] is None


def test_a_heap_of_one_buffer_has_no_section() -> None:
    assert packing_of(heap_of([Step("A", 0, SLOT), Step("F", 0)], {0: 0})) == ()


@given(st.integers(0, len(STEPS)))
def test_any_part_of_a_trace_can_be_shown(length: int) -> None:
    memory = heap_of(STEPS, MERGED)
    (trace,) = memory.assignment.traces
    cut = replace(trace, events=trace.events[length:])
    changed = replace(memory, assignment=replace(memory.assignment, traces=(cut,)))
    assert text_of(packing_of(changed)).startswith("x")


# ---- what does not count ------------------------------------------------------------------------

HUGE, PADDED, SCALAR = (
    "f32[8192,8192]{1,0:T(8,128)}",
    "f32[8192,5000]{1,0:T(8,128)}",
    "f32[]{:T(128)}",
)


def test_padding_that_does_not_count_is_no_row() -> None:
    text = text_of(padding_of(PADDED, SCALAR, SCALAR))
    assert "5,000 to 5,120" in text
    assert "scalar" not in text
    assert "2 more rows are in the JSON report" in text


def test_where_no_padding_counts_there_is_a_sentence() -> None:
    text = text_of(padding_of(HUGE, SCALAR, SCALAR))
    assert "2 arrays with padding, each less than 0.01% of the peak." in text
    assert "because" not in text


def test_of_a_tiny_program_every_row_counts() -> None:
    assert "scalar: 1 to 128" in text_of(padding_of(SCALAR, "f32[128]{0:T(128)}"))


def test_what_is_small_beside_the_peak_is_added_up() -> None:
    memory = arguments_of([shape_of(t) for t in (HUGE, SCALAR, SCALAR)])
    report = report_program(memory, Origin(name="f"))
    text = text_of(program_sections(report))
    assert "params[0]" in text
    assert "params[1]" not in text
    assert "1.00 KiB" in text
    assert "2 smaller ones" in text
