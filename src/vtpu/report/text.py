"""A document as text: in the terminal's width and colours, or in plain long lines."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from vtpu.report.cells import cell_text, visible, wrapped
from vtpu.report.document import Block, Code, Column, Document, Facts, Note, Table
from vtpu.report.layout import lay_out
from vtpu.units import counted

_PLAIN_WIDTH = 4096  # nothing is cut in a file or a pipe
_INDENT = "  "
_STYLES = {"heading": "dim", "row": "", "detail": ""}
_SIMPLER = str.maketrans({"µ": "u", "·": "|", "…": "..."})


def print_document(document: Document, file: TextIO) -> None:
    """Prints a document to `file`, in colour when that is a terminal (and `NO_COLOR` is not set).

    A character that the file's encoding does not have is replaced.
    """
    console = Console(file=file, highlight=False, legacy_windows=False)
    width = console.width if file.isatty() else _PLAIN_WIDTH
    with console.capture() as capture:
        for line in _document(document, width):
            console.print(line, soft_wrap=True)
    file.write(encodable(capture.get(), getattr(file, "encoding", None) or "utf-8"))
    file.flush()  # `vtpu run` may end by a signal next


def encodable(text: str, encoding: str) -> str:
    """`text` as a file of this encoding can hold it."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_SIMPLER).encode(encoding, "replace").decode(encoding)
    return text


# Lines are made as `Text`, never as strings, which rich would read as markup.


def _document(document: Document, width: int) -> list[Text]:
    lines = [Text(visible(document.title), style="bold")]
    for section in document.sections:
        lines += [Text(), Text(visible(section.heading), style="bold cyan")]
        for block in section.blocks:
            lines += _block(block, width)
    return lines


def _block(block: Block, width: int) -> list[Text]:
    if isinstance(block, Note):
        return _paragraph(visible(block.text), "yellow" if block.is_warning else "", width)
    if isinstance(block, Code):
        return [Text(line) for line in block.text.splitlines()]
    if isinstance(block, Facts):
        return _facts(block, width)
    text = lay_out(block, width)
    lines = [Text(line, style=_STYLES[kind]) for kind, line in text.lines]
    return lines + _paragraph(_remark(block, text.left_out), "dim", width)


def _paragraph(text: str, style: str, width: int) -> list[Text]:
    parts = wrapped(text, width - len(_INDENT))
    return [Text(_INDENT + part, style=style) for part in parts if part]


def _facts(facts: Facts, width: int) -> list[Text]:
    names = max((len(name) for name, _ in facts.pairs), default=0)
    indent = " " * (len(_INDENT) + names + 2)
    lines: list[Text] = []
    for name, value in facts.pairs:
        for number, part in enumerate(wrapped(cell_text(value), width - len(indent))):
            heading = f"{_INDENT}{name.ljust(names)}  " if number == 0 else indent
            lines.append(Text.assemble((heading, "dim"), part))
            lines[-1].rstrip()
    return lines


def _remark(table: Table, left_out: tuple[str, ...]) -> str:
    """What stands under a table: where its figures come from, what is not shown."""
    columns = tuple(c for c in table.columns if c.heading not in left_out)
    parts = [basis_text(columns)]
    if left_out:
        parts.append(f"no room for: {', '.join(left_out)}")
    if table.left_out:
        verb = "is" if table.left_out == 1 else "are"
        parts.append(f"{counted(table.left_out, 'more row')} {verb} in the JSON report")
    return "; ".join(filter(None, parts))


def basis_text(columns: tuple[Column, ...]) -> str:
    """Where the figures of a table come from: `compiler: arguments, outputs; simulated: calls`."""
    by_basis: dict[str, list[str]] = {}
    for column in columns:
        if column.basis:
            by_basis.setdefault(str(column.basis), []).append(column.heading)
    return "; ".join(f"{basis}: {', '.join(names)}" for basis, names in by_basis.items())
