"""Loops of the user's program: which one a piece of code stands in, and what counts its turns."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Wrap
from vtpu.changes.source.names import bound, called, changed, fresh

Loop = ast.For | ast.While
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What counts the turns of a loop, and what has to be written for that."""

    name: str
    edits: tuple[Edit, ...] = ()


def statement_of(file: SourceFile, node: ast.AST) -> ast.stmt | None:
    """The innermost statement that a node is or stands in."""
    at: ast.AST | None = node
    while at is not None and not isinstance(at, ast.stmt):
        at = file.parents.get(at)
    return at


def statement_on(file: SourceFile, line: int) -> ast.stmt | None:
    """The innermost statement on a line."""
    found = file.on_line(line, ast.stmt)
    return found[0] if found and isinstance(found[0], ast.stmt) else None


def loops_around(file: SourceFile, node: ast.AST) -> list[Loop]:
    """The loops of the same function that do a piece of code again, innermost first."""
    found: list[Loop] = []
    at: ast.AST | None = node
    while at is not None and (at is node or not isinstance(at, _FUNCTIONS)):
        parent = file.parents.get(at)
        if isinstance(parent, ast.For | ast.While) and (at in parent.body or at is _test(parent)):
            found.append(parent)
        at = parent
    return found


def scope_of(
    file: SourceFile, node: ast.AST
) -> ast.Module | ast.FunctionDef | ast.AsyncFunctionDef:
    """The function that a node stands in, or the module."""
    found = file.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    first = found[0] if found else file.tree
    assert isinstance(first, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef)
    return first


def outermost_keeping(file: SourceFile, node: ast.AST, names: set[str]) -> Loop | None:
    """The outermost loop around code that, with those inside of it, leaves names as they are.

    None: already the innermost one changes them, or there is none.
    """
    found: Loop | None = None
    for loop in loops_around(file, node):
        if names & changed([loop]):
            break
        found = loop
    return found


def counter_of(file: SourceFile, loop: Loop) -> Counter | None:
    """What counts the turns of a loop; `for` loops without get an `enumerate`. None: there is nothing."""
    if isinstance(loop, ast.While):
        counted = [n for s in loop.body if (n := _counted(s))]
        return Counter(name=counted[0]) if counted else None
    target = _counting_target(file, loop)
    if target is not None:
        return Counter(name=target.id) if target.id not in bound(loop.body) else None
    return _enumerated(file, loop)


def _test(loop: Loop) -> ast.expr | None:
    return loop.test if isinstance(loop, ast.While) else None


def _counted(statement: ast.stmt) -> str:
    """The name that a statement counts up by a whole number."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return ""
    is_whole = isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, int)
    return statement.target.id if is_whole and isinstance(statement.target, ast.Name) else ""


def _counting_target(file: SourceFile, loop: ast.For) -> ast.Name | None:
    """`step` of `for step in range(…)` and of `for step, batch in enumerate(…)`."""
    iterated = loop.iter
    shows = called(file, iterated).rpartition(".")[2]
    if isinstance(iterated, ast.Call) and shows in ("tqdm", "track") and iterated.args:
        iterated = iterated.args[0]
    name = called(file, iterated)
    if name in ("range", "tqdm.trange", "tqdm.auto.trange") and isinstance(loop.target, ast.Name):
        return loop.target
    if name == "enumerate" and isinstance(loop.target, ast.Tuple):
        first = loop.target.elts[0]
        return first if isinstance(first, ast.Name) else None
    return None


def _enumerated(file: SourceFile, loop: ast.For) -> Counter:
    name = fresh(file, "step")
    begin, end = file.span(loop.target)
    is_bare = isinstance(loop.target, ast.Tuple) and not file.source(loop.target).startswith("(")
    before, behind = (f"{name}, (", ")") if is_bare else (f"{name}, ", "")
    target = Wrap(file=file.name, begin=begin, end=end, before=before, after=behind)
    first, last = file.span(loop.iter)
    source = Wrap(file=file.name, begin=first, end=last, before="enumerate(", after=")")
    return Counter(name=name, edits=(target, source))
