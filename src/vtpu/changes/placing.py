"""Edits of whole statements: something before, behind or around them, or without them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace

_INDENT = "    "


def stands_alone(file: SourceFile, statement: ast.stmt) -> bool:
    """Whether a statement has its lines for itself: no other one stands on them, as with `a; b`."""
    begin, end = file.span(statement)
    before = file.text[_line_start(file, statement) : begin]
    behind = file.text[end : _line_end(file, statement)].strip()
    return (not before.strip() or before.lstrip().startswith("@")) and (
        not behind or behind.startswith("#")
    )


def indentation(file: SourceFile, statement: ast.stmt) -> str:
    """The white space before a statement."""
    line = file.lines[_first_line(statement) - 1]
    return line[: len(line) - len(line.lstrip())]


def before(file: SourceFile, statement: ast.stmt, *lines: str) -> Replace:
    """Lines of code before a statement, with its indentation."""
    at = _line_start(file, statement)
    return Replace(file=file.name, begin=at, end=at, text=_block(file, statement, lines))


def behind(file: SourceFile, statement: ast.stmt, *lines: str) -> Replace:
    """Lines of code behind a statement, with its indentation."""
    at = _line_end(file, statement)
    text = _block(file, statement, lines)
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
        at = _line_start(file, statement) + len(space)
        edits.append(Replace(file=file.name, begin=at, end=at, text=_INDENT))
    return edits


def without(file: SourceFile, statement: ast.stmt) -> Replace:
    """A file without a statement; `pass` stands in for the only one of a block."""
    is_alone = all(statement not in block or len(block) == 1 for block in _blocks(file, statement))
    begin, end = _line_start(file, statement), _line_end(file, statement)
    text = f"{indentation(file, statement)}pass\n" if is_alone else ""
    return Replace(file=file.name, begin=begin, end=end, text=text)


def moved(file: SourceFile, statement: ast.stmt, anchor: ast.stmt) -> list[Edit]:
    """A statement before another one instead of where it is."""
    text = file.text[_line_start(file, statement) : _line_end(file, statement)]
    lines = textwrap.dedent(text).removesuffix("\n").split("\n")
    return [before(file, anchor, *lines), without(file, statement)]


def has_long_text(node: ast.AST) -> bool:
    """Whether code holds a text over several lines, which indentation would change."""
    texts = [n for n in ast.walk(node) if isinstance(n, ast.JoinedStr | ast.Constant)]
    return any((n.end_lineno or n.lineno) > n.lineno for n in texts)


def block_of(file: SourceFile, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    return next((b for b in _blocks(file, statement) if statement in b), [statement])


def _blocks(file: SourceFile, statement: ast.stmt) -> list[list[ast.stmt]]:
    parent = file.parents.get(statement)
    fields = ("body", "orelse", "finalbody")
    return [b for f in fields if isinstance(b := getattr(parent, f, None), list)]


def _block(file: SourceFile, statement: ast.stmt, lines: Sequence[str]) -> str:
    space = indentation(file, statement)
    given = [one for line in lines for one in line.split("\n")]
    return "".join(f"{space}{one}\n" if one else "\n" for one in given)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _line_start(file: SourceFile, statement: ast.stmt) -> int:
    return file.offset(_first_line(statement), 0)


def _line_end(file: SourceFile, statement: ast.stmt) -> int:
    """Where the line behind a statement begins."""
    return min(file.offset((statement.end_lineno or statement.lineno) + 1, 0), len(file.text))
