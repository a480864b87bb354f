"""Names that a line of a function takes from outside of it: values that are captured, not passed."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def captured_names(file: SourceFile, line: int) -> tuple[str, ...]:
    """The variables that the code on a line reads and that an enclosing scope assigns.

    Names of functions, classes and modules are none, nor are arguments of enclosing functions: those
    may be passed. Attributes of `self` are, as `self.table`.
    """
    function = _function_at(file, line)
    if function is None:
        return ()
    outer = _assigned_outside(file, function)
    read = [n for n in ast.walk(function) if _is_on(n, line)]
    names = [n.id for n in read if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    own = [ast.unparse(n) for n in read if isinstance(n, ast.Attribute) and _is_of_self(n)]
    local = _bound_in(function)
    return tuple(dict.fromkeys([*(n for n in names if n in outer and n not in local), *own]))


def _function_at(file: SourceFile, line: int) -> Function | None:
    """The innermost function that has a line in its body."""
    found = [n for n in file.on_line(line, *_SCOPES) if isinstance(n, Function)]
    inside = [f for f in found if isinstance(f, ast.Lambda) or line >= f.body[0].lineno]
    return inside[0] if inside else None


def _is_on(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _assigned_outside(file: SourceFile, function: Function) -> set[str]:
    """Names of variables of the scopes around a function."""
    scopes = [*file.enclosing(function, *_SCOPES), file.tree]
    return {name for scope in scopes for name in _assigned_in(scope)}


def _assigned_in(scope: ast.AST) -> set[str]:
    """Names that a scope itself assigns a value to, inner functions and classes apart."""
    found: set[str] = set()
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_SCOPES, ast.ClassDef)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return found


def _bound_in(function: Function) -> set[str]:
    """Arguments of a function and what it assigns."""
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    inner = {n.name for n in ast.walk(function) if isinstance(n, _DEFINES)}
    return arguments | inner | _assigned_in(function)
