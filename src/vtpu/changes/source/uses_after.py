"""Whether the user's program uses an argument after the call that could take its memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.loops import loops_around, scope_of, statement_of

_PLACES = (ast.Name, ast.Attribute, ast.Subscript)
_KEEPING = (ast.Call, ast.Assign)
_CONTAINERS = ("append", "appendleft", "add", "extend", "insert", "put", "setdefault")


@dataclass(frozen=True, slots=True, kw_only=True)
class UseAfter:
    """An argument of a call that is read later: by its parameter's name, as it is written, with the line."""

    parameter: str
    text: str
    line: int


def uses_after(site: JitSite, parameters: Sequence[str]) -> list[UseAfter]:
    """The arguments of calls of a jitted function that are still needed, in the file where it is jitted.

    `parameters` are its positional ones, as its callers see them. What other names an array has is not
    followed.
    """
    found: list[UseAfter] = []
    for call in _calls(site):
        for parameter, argument in _arguments(call, parameters):
            line = _used_at(site.file, call, argument)
            if line is not None:
                text = site.file.source(argument)
                found.append(UseAfter(parameter=parameter, text=text, line=line))
    return found


def _calls(site: JitSite) -> list[ast.Call]:
    names = _callable_names(site)
    calls = [n for n in ast.walk(site.file.tree) if isinstance(n, ast.Call)]
    return [c for c in calls if c.func is site.node or _last_name(c.func) in names]


def _callable_names(site: JitSite) -> set[str]:
    """What the jitted function is called: the decorated one's name, or what it is assigned to."""
    parent = site.file.parents.get(site.node)
    if isinstance(parent, ast.FunctionDef):
        return {parent.name}
    if isinstance(parent, ast.Assign):
        return {name for t in parent.targets if (name := _last_name(t))}
    return set()


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _arguments(call: ast.Call, parameters: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    for name, argument in zip(parameters, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            return
        yield name, argument
    yield from ((k.arg, k.value) for k in call.keywords if k.arg)


def _used_at(file: SourceFile, call: ast.Call, argument: ast.expr) -> int | None:
    """The line where an argument is used next; None where it is made for the call, or bound anew first."""
    statement = statement_of(file, call)
    if not isinstance(argument, _PLACES) or statement is None:
        return None
    text = ast.unparse(argument)
    if (kept := _kept_at(file, call, text)) is not None:
        return kept
    if text in _stored(statement):
        return None
    loops = loops_around(file, call)
    if loops and text not in {t for s in loops[0].body for t in _stored(s)} | _targets(loops[0]):
        return call.lineno  # the next turn passes it again
    return _next_use(file, call, text)


def _kept_at(file: SourceFile, call: ast.Call, text: str) -> int | None:
    """Where a loop around a call keeps an array that the next turn's call would take: `saved.append(params)`."""
    nodes = (n for loop in loops_around(file, call) for s in loop.body for n in ast.walk(s))
    kept = (n.lineno for n in nodes if isinstance(n, _KEEPING) and _keeps(n, text))
    return next(kept, None)


def _keeps(node: ast.Call | ast.Assign, text: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(ast.unparse(n) == text for n in _elements(node.value))
    is_kept = isinstance(node.func, ast.Attribute) and node.func.attr in _CONTAINERS
    return is_kept and any(ast.unparse(n) == text for a in node.args for n in _elements(a))


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    """An expression, or what stands in a display: of `[params, opt]` both."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        yield from (e for n in node.elts for e in _elements(n))
    elif isinstance(node, ast.Dict):
        yield from (e for n in node.values for e in _elements(n))
    else:
        yield node


def _next_use(file: SourceFile, call: ast.Call, text: str) -> int | None:
    end = (call.end_lineno or call.lineno, call.end_col_offset or 0)
    later = [
        n
        for n in ast.walk(scope_of(file, call))
        if isinstance(n, _PLACES) and (n.lineno, n.col_offset) >= end and ast.unparse(n) == text
    ]
    first = min(later, key=lambda n: (n.lineno, n.col_offset), default=None)
    return first.lineno if first is not None and isinstance(first.ctx, ast.Load) else None


def _stored(statement: ast.stmt) -> set[str]:
    """What a statement binds anew, as it is written; also what statements in it do."""
    nodes = (n for n in ast.walk(statement) if isinstance(n, _PLACES))
    return {ast.unparse(n) for n in nodes if isinstance(n.ctx, ast.Store)}


def _targets(loop: ast.For | ast.While) -> set[str]:
    if not isinstance(loop, ast.For):
        return set()
    nodes = (n for n in ast.walk(loop.target) if isinstance(n, _PLACES))
    return {ast.unparse(n) for n in nodes}
