"""Names that mean the same as long as a program runs, so that a function which uses them can be made once."""

from __future__ import annotations

import ast
import builtins

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import bound, definition_of, free_names, imported
from vtpu.changes.source.origins import Origin, Origins

_BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match)


def changing_names(file: SourceFile, node: ast.expr | ast.stmt) -> list[str]:
    """The names that a piece of code takes from around it and that may come to mean something else.

    What stays: imports, numbers, strings and arrays of JAX's that are assigned once, and functions that
    are defined once and take only what stays. An object of a class may change, and so may an array of numpy's.
    """
    return sorted(n for n in free_names(node) if not _stays(file, n, frozenset()))


def _stays(file: SourceFile, name: str, seen: frozenset[str]) -> bool:
    if name in seen or name in imported(file):
        return True
    statements = [
        n for n in ast.walk(file.tree) if isinstance(n, ast.stmt) and name in _bound_by(n)
    ]
    if not statements:
        return hasattr(builtins, name) and not _is_parameter(file, name)
    if len(statements) > 1 or _is_parameter(file, name):
        return False
    function = definition_of(file, name)
    if function is not None:
        return all(_stays(file, n, seen | {name}) for n in free_names(function))
    return _is_constant(file, statements[0])


def _is_constant(file: SourceFile, statement: ast.stmt) -> bool:
    """Whether a statement assigns what cannot be written to."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    is_text = isinstance(statement.value, ast.Constant)
    return is_text or Origins(file).of(statement.value) in (Origin.DEVICE, Origin.NUMBER)


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, those of the statements in it apart."""
    if not isinstance(statement, _BLOCKS):
        return bound([statement])
    inner = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt)]
    return bound(inner) if not isinstance(statement, ast.Try) else set()


def _is_parameter(file: SourceFile, name: str) -> bool:
    return any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(file.tree))
