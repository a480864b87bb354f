"""Where a program sets variables of its environment, and where it imports JAX."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile

_SETTERS = {"setdefault", "putenv"}


def line_that_sets(file: SourceFile, variable: str) -> int | None:
    """The last line of `os.environ["…"] = …` and its like for a variable; None: there is none."""
    lines = [
        n.lineno for n in ast.walk(file.tree) if isinstance(n, ast.stmt) and _sets(n, variable)
    ]
    return max(lines, default=None)


def line_of_import(file: SourceFile, module: str) -> int | None:
    """The first line that imports a module or a part of it."""
    lines = [
        n.lineno for n in ast.walk(file.tree) if isinstance(n, ast.stmt) and _imports(n, module)
    ]
    return min(lines, default=None)


def _sets(statement: ast.stmt, variable: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(_is_entry(target, variable) for target in targets)
        case ast.AugAssign(target=target):
            return _is_entry(target, variable)
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(attr="update"), args=[ast.Dict(keys=keys)])
        ):
            return any(_is_name(key, variable) for key in keys)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[first, *_])):
            return name in _SETTERS and _is_name(first, variable)
        case _:
            return False


def _is_entry(target: ast.expr, variable: str) -> bool:
    return isinstance(target, ast.Subscript) and _is_name(target.slice, variable)


def _is_name(node: ast.expr | None, variable: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == variable


def _imports(statement: ast.stmt, module: str) -> bool:
    match statement:
        case ast.Import(names=names):
            return any(name.name.split(".")[0] == module for name in names)
        case ast.ImportFrom(module=str(name), level=0):
            return name.split(".")[0] == module
        case _:
            return False
