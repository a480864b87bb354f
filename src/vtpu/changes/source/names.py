"""What names in a file mean: what was imported as what, what a piece of code binds, reads and changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeGuard

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Import


@lru_cache(maxsize=64)
def imported(file: SourceFile) -> Mapping[str, str]:
    """The full names of what a file imports, by the name that it has there: `jnp` is `jax.numpy`."""
    return dict(pair for node in ast.walk(file.tree) for pair in _aliases(node))


def qualified(file: SourceFile, node: ast.AST) -> str:
    """The full name that an expression spells, `jax.numpy.zeros` of `jnp.zeros`; empty where it is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([imported(file).get(node.id, node.id), *reversed(parts)])


def called(file: SourceFile, node: ast.AST) -> str:
    """The full name of what a call calls; empty for what is no call of a name."""
    return qualified(file, node.func) if isinstance(node, ast.Call) else ""


def spelled(file: SourceFile, name: str) -> tuple[str, tuple[Import, ...]]:
    """How a file spells `jax.numpy.mean`, and what it has to import for that."""
    visible = {full: alias for node in file.tree.body for alias, full in _aliases(node)}
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        alias = visible.get(".".join(parts[:length]))
        if alias:
            return ".".join([alias, *parts[length:]]), ()
    return name, (Import(file=file.name, statement=f"import {parts[0]}"),)


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that code binds: by assignments, loops, imports, definitions. What is defined inside of
    functions is theirs.
    """
    return {name for node in nodes for name in _bound(node)}


def changed(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that code binds or whose contents it changes: `x` of `x[0] = 1` and of `x.w = 1`."""
    found: set[str] = set()
    for node in nodes:
        found |= set(_bound(node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute | ast.Subscript) and not isinstance(
                inner.ctx, ast.Load
            ):
                found |= {root.id} if (root := root_of(inner)) else set()
    return found


def writes_to(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function changes what a name outside of it holds."""
    outer = (ast.Global, ast.Nonlocal)
    given = {n for node in ast.walk(function) if isinstance(node, outer) for n in node.names}
    own = {*bound(function.body), *(a.arg for a in _arguments(function.args))} - given
    return name in changed(function.body) - own


def loaded(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that code reads."""
    return {n.id for node in nodes for n in ast.walk(node) if is_load(n)}


def loads_of(name: str, nodes: Iterable[ast.AST]) -> list[ast.Name]:
    """Where code reads a name."""
    return [n for node in nodes for n in ast.walk(node) if is_load(n) and n.id == name]


def is_load(node: ast.AST) -> TypeGuard[ast.Name]:
    """Whether a node is a name that is read."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def free_names(function: ast.expr | ast.stmt) -> set[str]:
    """The names that a function, or another piece of code, takes from around it."""
    names = loaded([function])
    inner = {
        a.arg for n in ast.walk(function) if isinstance(n, ast.arguments) for a in _arguments(n)
    }
    own = bound(function.body) if isinstance(function, ast.FunctionDef) else set[str]()
    targets = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not is_load(n)}
    return names - inner - own - targets


def root_of(node: ast.AST) -> ast.Name | None:
    """The name at the beginning of `x.a[0].b`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def fresh(file: SourceFile, wanted: str, taken: Iterable[str] = ()) -> str:
    """A name that the file does not use and that is not taken: `wanted`, or with a number."""
    used = {n.id for n in ast.walk(file.tree) if isinstance(n, ast.Name)}
    used |= {n.arg for n in ast.walk(file.tree) if isinstance(n, ast.arg)}
    used |= {*bound(file.tree.body), *taken}
    return next(n for n in _numbered(wanted) if n not in used)


def definition_of(file: SourceFile, name: str) -> ast.FunctionDef | None:
    """The one function of a name in a file; None where there is none, or more."""
    found = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[0] if len(found) == 1 else None


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in range(2, 1 << 30))


def _aliases(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (first, first)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((a.asname or a.name).partition(".")[0] for a in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _arguments(node: ast.arguments) -> list[ast.arg]:
    more = [a for a in (node.vararg, node.kwarg) if a]
    return [*node.posonlyargs, *node.args, *node.kwonlyargs, *more]
