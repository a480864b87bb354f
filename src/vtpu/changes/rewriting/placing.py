"""Edits of whole statements: something before, behind or around them, or without them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.source.statements import blocks_around, indentation, line_end, line_start

_INDENT = "    "


def before(file: SourceFile, statement: ast.stmt, *lines: str) -> Replace:
    """Lines of code before a statement, with its indentation."""
    at = line_start(file, statement)
    return Replace(file=file.name, begin=at, end=at, text=_lines(file, statement, lines))


def behind(file: SourceFile, statement: ast.stmt, *lines: str) -> Replace:
    """Lines of code behind a statement, with its indentation."""
    at = line_end(file, statement)
    text = _lines(file, statement, lines)
    if at and not file.text[:at].endswith("\n"):
        text = "\n" + text.removesuffix("\n")
    return Replace(file=file.name, begin=at, end=at, text=text)


def under(file: SourceFile, statements: Sequence[ast.stmt], head: str, *first: str) -> list[Edit]:
    """Simple statements that stand one below the other under a head, `if step % 50 == 0:`, behind the lines
    `first`.
    """
    space = indentation(file, statements[0])
    edits: list[Edit] = [before(file, statements[0], head, *(_INDENT + line for line in first))]
    for statement in statements:
        at = line_start(file, statement) + len(space)
        edits.append(Replace(file=file.name, begin=at, end=at, text=_INDENT))
    return edits


def without(file: SourceFile, statement: ast.stmt) -> Replace:
    """A file without a statement; `pass` stands in for the only one of a block."""
    is_alone = all(
        statement not in block or len(block) == 1 for block in blocks_around(file, statement)
    )
    begin, end = line_start(file, statement), line_end(file, statement)
    text = f"{indentation(file, statement)}pass\n" if is_alone else ""
    return Replace(file=file.name, begin=begin, end=end, text=text)


def moved(file: SourceFile, statement: ast.stmt, anchor: ast.stmt) -> list[Edit]:
    """A statement before another one instead of where it is."""
    text = file.text[line_start(file, statement) : line_end(file, statement)]
    lines = textwrap.dedent(text).removesuffix("\n").split("\n")
    return [before(file, anchor, *lines), without(file, statement)]


def _lines(file: SourceFile, statement: ast.stmt, lines: Sequence[str]) -> str:
    space = indentation(file, statement)
    given = [one for line in lines for one in line.split("\n")]
    return "".join(f"{space}{one}\n" if one else "\n" for one in given)
