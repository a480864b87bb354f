"""The calls in the user's files that a stack of frames went through, and what they call."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.changes.source.names import qualified
from vtpu.program.locations import Frame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallSite:
    """A call in the user's file, or an operator. `callee` is the user's function that runs in it, `block`
    or `Block.__call__`, in file `home`; empty where it runs no other code of the user's.
    """

    file: SourceFile
    node: ast.expr
    callee: str = ""
    home: SourceFile | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells a place from others."""
        return self.file.name, self.node.lineno, self.node.col_offset

    @property
    def called(self) -> str:
        """The full name of what is called, `jax.lax.scan`; empty where that is no name."""
        return qualified(self.file, self.node.func) if isinstance(self.node, ast.Call) else ""


def call_sites(files: SourceFiles, frames: Sequence[Frame]) -> list[CallSite]:
    """The calls of a stack, innermost first; lines on which no call is found are left out."""
    found: list[CallSite] = []
    inner, home = "", None
    for frame in frames:
        file = files.get(frame.file)
        node = _expression_at(file, frame) if file else None
        if file and node and not (found and found[-1].node is node):
            found.append(CallSite(file=file, node=node, callee=inner, home=home))
        inner, home = _without_locals(frame.function), file
    return found


def made_by(file: SourceFile, node: ast.expr) -> list[str]:
    """The full names of the functions that made what an expression names, the last one first.

    `jax.value_and_grad` of `grad_fn` after `grad_fn = jax.value_and_grad(loss)`, of `jax.grad(loss)`
    itself, and of a function that is decorated with one. Empty where nothing did.
    """
    if isinstance(node, ast.IfExp):
        return [*made_by(file, node.body), *made_by(file, node.orelse)]
    if isinstance(node, ast.Call):
        name = qualified(file, node.func)
        if not name:
            return made_by(file, node.func)
        is_partial = name == "functools.partial" and node.args
        return [qualified(file, node.args[0]) if is_partial else name]
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    made: list[str] = []
    for value in assigned(file, last):
        if isinstance(value, ast.Call | ast.IfExp):
            made += made_by(file, value)
    for definition in definitions(file, last):
        for decorator in definition.decorator_list:
            made += made_by(file, decorator) or []
            made += [qualified(file, decorator)] if not isinstance(decorator, ast.Call) else []
    return [name for name in made if name]


def assigned(file: SourceFile, name: str) -> list[ast.expr]:
    """What a file assigns to a name or to an attribute of that name."""
    return [
        node.value
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Assign)
        and any(name == getattr(t, "id", getattr(t, "attr", None)) for t in node.targets)
    ]


def definitions(file: SourceFile, name: str) -> list[ast.FunctionDef]:
    """The functions and methods of a name that a file defines."""
    return [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef) and n.name == name]


def _expression_at(file: SourceFile, frame: Frame) -> ast.expr | None:
    """What a frame stands at; where it tells no columns, the only call that begins on its line."""
    if frame.end_line:
        there = (frame.line, frame.column, frame.end_line, frame.end_column)
        exact = [n for n in _on_line(file, frame.line, ast.expr) if _span(n) == there]
        return next((n for n in exact if isinstance(n, ast.Call)), exact[0] if exact else None)
    calls = [n for n in _on_line(file, frame.line, ast.Call) if n.lineno == frame.line]
    outermost = [n for n in calls if not any(_is_in(n, other) for other in calls)]
    return outermost[0] if len(outermost) == 1 else None


def _on_line(file: SourceFile, line: int, kind: type[ast.expr]) -> list[ast.expr]:
    return [n for n in file.on_line(line, kind) if isinstance(n, ast.expr)]


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return node.lineno, node.col_offset, end_line, end_column


def _is_in(node: ast.expr, other: ast.expr) -> bool:
    return node is not other and any(n is node for n in ast.walk(other))


def _without_locals(function: str) -> str:
    """`Block.__call__` of `make.<locals>.Block.__call__`."""
    return function.rpartition("<locals>.")[2]
