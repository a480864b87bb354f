"""A document as text: what the user wrote is printed as it is, numbers are whole at every width."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recordings import allocate, execute, program, recording, stack
from vtpu.analysis.run.summary import summarize
from vtpu.evidence import Basis
from vtpu.recording.events import EventKind
from vtpu.report.cells import cell_text
from vtpu.report.document import (
    Bytes,
    Column,
    Count,
    Document,
    Facts,
    Line,
    Note,
    Seconds,
    Section,
    Table,
)
from vtpu.report.layout import lay_out
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document

MARKUP = ("[/b]", "a[i,0] [bold]x[/bold]", ":smile: [link=x]", "\\[red]", "[/]")


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def print_at(monkeypatch):
    """Prints a document in a terminal of some width."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    def print_it(document, width):
        monkeypatch.setenv("COLUMNS", str(width))
        out = Terminal()
        print_document(document, out)
        return out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2m", "")

    return print_it


def piped(document):
    out = io.StringIO()
    print_document(document, out)
    return out.getvalue()


def of_blocks(*blocks):
    return Document("t", (Section("s", blocks),))


@pytest.mark.parametrize("text", MARKUP)
def test_text_is_never_read_as_markup(text):
    blocks = (
        Note(text),
        Facts(((text, text),)),
        Table((Column(text), Column("line")), ((text, Line(f"/{text}.py", 3, "f", text)),)),
    )
    printed = piped(Document(text, (Section(text, blocks),)))
    assert printed.count(text) == 9


def test_sources_files_and_programs_with_brackets_are_printed_verbatim(tmp_path):
    file = tmp_path / "a[b].py"
    file.write_text("x = f(1.)  # [/b]\nfor i in range(3)]: y[i,0]\n")
    found = recording(
        {"kind": EventKind.HOST_TO_DEVICE, "bytes": 512, "stack": 2},
        stacks=(stack((str(file), 1)), stack((str(file), 2))),
        programs=(program(1, "jit_[red]", stack=1, error="[/x] no room"),),
    )
    printed = piped(run_document(summarize(found), "[/out].vtpu"))
    for text in ("a[b].py:1  x = f(1.)  # [/b]", "range(3)]: y[i,0]", "jit_[red]", "[/x] no room",
                 "[/out].vtpu"):  # fmt: skip
        assert text in printed


def test_control_characters_are_shown_and_not_obeyed():
    printed = piped(of_blocks(Note("a\x1b[2Jb\x07\rc")))
    assert "a\\x1b[2Jb\\x07\\x0dc" in printed


def trained():
    """A run with the sizes of a real one and a long name."""
    return recording(
        allocate(1, 900, stack=1),
        execute(2, 100, stack=1),
        {"kind": EventKind.HOST_TO_DEVICE, "bytes": 3 << 30, "stack": 1},
        programs=(
            program(1, "jit__threefry_split_foldlike", stack=1),
            program(2, "jit_train_step", stack=1, argument_bytes=132 << 20, output_bytes=1 << 30,
                    alias_bytes=123 << 20, temp_bytes=(1023 << 20) + 900_000, compile_s=51.5),
        ),
    )  # fmt: skip


FIGURES = ("132.00 MiB", "1.00 GiB", "123.00 MiB", "1,023.86 MiB", "3.00 GiB")


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_report_is_whole_at_every_width(print_at, width):
    document = run_document(summarize(trained()))
    printed = print_at(document, width)
    lines = printed.splitlines()
    assert max(map(cell_len, lines)) <= width
    shown = [f for f in FIGURES if f in printed]
    assert len(shown) == len(FIGURES) or "no room for: " in printed
    if width >= 100:
        assert len(shown) == len(FIGURES)
        assert "51.50 s" in printed
    for part in ("jit__threefry_split_foldlike", "jit_train_step", " train.py:12"):
        assert part in printed


def test_what_has_no_room_is_named(print_at):
    printed = print_at(run_document(summarize(trained())), 80)
    assert "no room for: compile" in " ".join(printed.split())
    assert "measured: compile" not in printed


def test_a_pipe_has_room_for_everything():
    printed = piped(run_document(summarize(trained())))
    (row,) = [r for r in printed.splitlines() if r.startswith("  jit_train_step ")]
    assert row.endswith("train.py:12")
    assert all(figure in row for figure in FIGURES[:4])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_character_that_an_encoding_lacks_is_replaced(encoding):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    line = Line("/project/naïve_\udce9.py", 3, "f", "x = 'π'")
    row = (line, Seconds(5e-6))
    print_document(of_blocks(Table((Column("line"), Column("time", Basis.MEASURED)), (row,))), file)
    file.flush()
    printed = raw.getvalue().decode(encoding)
    assert "5.0 us" in printed.replace("µ", "u")
    assert ("π" in printed) == (encoding == "utf-8")
    assert ("ï" in printed) == (encoding != "ascii")


def test_one_row_that_is_left_out_is_one():
    def remark(left_out):
        return piped(of_blocks(Table((Column("a"),), (("x",),), left_out))).splitlines()[-1]

    assert remark(1) == "  1 more row is in the JSON report"
    assert remark(1200) == "  1,200 more rows are in the JSON report"


cells = st.one_of(
    st.builds(Bytes, st.integers(0, 1 << 45)),
    st.builds(Count, st.integers(0, 10**9)),
    st.builds(Seconds, st.floats(0, 1e5)),
    st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=40),
    st.builds(
        Line, st.just("/project/train.py"), st.integers(1, 9999), st.just("f"), st.text("ab ")
    ),
)
tables = st.integers(1, 9).flatmap(
    lambda count: st.builds(
        Table,
        st.tuples(*[st.builds(Column, st.sampled_from("abc"), is_minor=st.booleans())] * count),
        st.lists(st.tuples(*[cells] * count), min_size=1, max_size=4).map(tuple),
    )
)


@given(tables, st.integers(50, 200))
def test_every_figure_is_on_one_line_or_left_out_by_name(table, width):
    text = lay_out(table, width)
    lines = [line for _, line in text.lines]
    assert max(map(cell_len, lines), default=0) <= width
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            if isinstance(cell, Bytes | Count | Seconds) and column.heading not in text.left_out:
                assert any(cell_text(cell) in line for line in lines)
