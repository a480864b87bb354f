"""Statements by which the host reads arrays: `float(loss)`, and those that only show what was read."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import called

_READERS = ("float", "int", "bool", "numpy.asarray", "numpy.array", "jax.device_get")
_READING_METHODS = ("item", "tolist")
_SHOWING_METHODS = {
    "info", "debug", "warning", "log", "add_scalar", "add_scalars", "add_histogram", "scalar",
    "set_postfix", "set_description", "write_scalars", "log_metric", "log_metrics", "track",
}  # fmt: skip
_PURE = {
    "float", "int", "bool", "str", "len", "round", "repr", "format", "sum", "min", "max", "abs",
    "dict", "list", "tuple", "jax.device_get",
}  # fmt: skip
_PURE_MODULES = ("numpy.", "jax.numpy.", "math.", "time.")
_IMPURE_PARTS = ("random", "shuffle", "save", "load", "copyto", "put", "seed", "sleep", "fromfile")
_PURE_METHODS = {
    "item", "tolist", "format", "mean", "sum", "min", "max", "std", "get", "join", "astype", "reshape",
    "ravel", "flatten", "copy", "items", "values", "keys",
}  # fmt: skip
_ACTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """An expression that reads an array. `can_repeat`: of what it gives it gives the same again."""

    file: SourceFile
    node: ast.expr
    array: ast.expr
    can_repeat: bool

    def of(self, name: str) -> str:
        """The same read of another array: `float(name)`."""
        begin, end = self.file.span(self.node)
        first, last = self.file.span(self.array)
        return self.file.text[begin:first] + name + self.file.text[last:end]


def read_in(file: SourceFile, node: ast.expr) -> Read | None:
    """The read that an expression is; None for any other."""
    array, can_repeat = node, True
    while (inner := _read_by(file, array)) is not None:
        can_repeat = can_repeat and not _is_method(array)
        array = inner
    if array is node:
        return None
    return Read(file=file, node=node, array=array, can_repeat=can_repeat)


def reads_within(file: SourceFile, node: ast.AST) -> list[Read]:
    """The reads in an expression, of one within another the outer one."""
    read = read_in(file, node) if isinstance(node, ast.expr) else None
    if read is not None:
        return [read]
    return [r for child in ast.iter_child_nodes(node) for r in reads_within(file, child)]


def only_shows(file: SourceFile, statement: ast.stmt) -> bool:
    """Whether a statement shows values to people and does nothing else: `print(float(loss))`."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _SHOWING_METHODS
    if called(file, call) != "print" and not is_method:
        return False
    return all(is_pure(file, a) for a in (*call.args, *(k.value for k in call.keywords)))


def is_pure(file: SourceFile, node: ast.expr) -> bool:
    """Whether an expression is known to compute a value and to do nothing else."""
    inner = list(ast.walk(node))
    if any(isinstance(n, _ACTS) for n in inner):
        return False
    return all(_is_pure_call(file, n) for n in inner if isinstance(n, ast.Call))


def _read_by(file: SourceFile, node: ast.expr) -> ast.expr | None:
    """What a call reads."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if called(file, node) in _READERS and len(node.args) == 1:
        return node.args[0]
    return node.func.value if _is_method(node) and isinstance(node.func, ast.Attribute) else None


def _is_method(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _READING_METHODS
        and not node.args
    )


def _is_pure_call(file: SourceFile, call: ast.Call) -> bool:
    name = called(file, call)
    if name in _PURE:
        return True
    if name.startswith(_PURE_MODULES):
        return not any(part in name for part in _IMPURE_PARTS)
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PURE_METHODS
