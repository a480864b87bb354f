"""Statements as they stand in a file: their lines, their indentation, the block around them."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile


def stands_alone(file: SourceFile, statement: ast.stmt) -> bool:
    """Whether a statement has its lines for itself: no other one stands on them, as with `a; b`."""
    begin, end = file.span(statement)
    before = file.text[line_start(file, statement) : begin]
    behind = file.text[end : line_end(file, statement)].strip()
    return (not before.strip() or before.lstrip().startswith("@")) and (
        not behind or behind.startswith("#")
    )


def indentation(file: SourceFile, statement: ast.stmt) -> str:
    """The white space before a statement."""
    line = file.lines[first_line(statement) - 1]
    return line[: len(line) - len(line.lstrip())]


def has_long_text(node: ast.AST) -> bool:
    """Whether code holds a text over several lines, which indentation would change."""
    texts = [n for n in ast.walk(node) if isinstance(n, ast.JoinedStr | ast.Constant)]
    return any((n.end_lineno or n.lineno) > n.lineno for n in texts)


def block_of(file: SourceFile, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    return next((b for b in blocks_around(file, statement) if statement in b), [statement])


def blocks_around(file: SourceFile, statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of what a statement stands in: a loop's body and what follows it, an `if` and its `else`."""
    parent = file.parents.get(statement)
    fields = ("body", "orelse", "finalbody")
    return [b for f in fields if isinstance(b := getattr(parent, f, None), list)]


def first_line(statement: ast.stmt) -> int:
    """The line where a statement begins, its decorators with it."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def line_start(file: SourceFile, statement: ast.stmt) -> int:
    """Where that line begins in the text."""
    return file.offset(first_line(statement), 0)


def line_end(file: SourceFile, statement: ast.stmt) -> int:
    """Where the line behind a statement begins."""
    return min(file.offset((statement.end_lineno or statement.lineno) + 1, 0), len(file.text))
