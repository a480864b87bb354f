"""Where a program takes the time: the two places between which it reads a clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile

_CLOCKS = {
    "time": ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns"),
    "timeit": ("default_timer",),
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A difference of two readings of a clock, on lines `begin` and `end` of a file.

    `is_each_time`: both are in the body of one loop, so that each of its rounds is measured.
    """

    file: str
    function: str
    begin: int
    end: int
    is_each_time: bool


def timings_in(file: SourceFile) -> tuple[Timing, ...]:
    """The differences of clock readings in a file, in one function each."""
    clocks = _names_of_clocks(file.tree)
    scopes = [file.tree, *(n for n in ast.walk(file.tree) if isinstance(n, _SCOPES[:2]))]
    return tuple(t for scope in scopes for t in _in_scope(file, scope, clocks)) if clocks else ()


def called_between(file: SourceFile, begin: int, end: int) -> set[str]:
    """The names of functions that the lines from `begin` to `end` call."""
    calls = (n for n in ast.walk(file.tree) if isinstance(n, ast.Call) and begin <= n.lineno <= end)
    return {ast.unparse(call.func).rpartition(".")[2] for call in calls}


def _names_of_clocks(tree: ast.Module) -> set[str]:
    """How the file calls functions that read a clock: `time.perf_counter`, `now`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = {a.asname or a.name: _CLOCKS.get(a.name, ()) for a in node.names}
            found |= {f"{name}.{clock}" for name, clocks in modules.items() for clock in clocks}
        elif isinstance(node, ast.ImportFrom):
            clocks = _CLOCKS.get(node.module or "", ())
            found |= {a.asname or a.name for a in node.names if a.name in clocks}
    return found


def _in_scope(file: SourceFile, scope: ast.AST, clocks: set[str]) -> Iterator[Timing]:
    nodes = sorted(_own_nodes(scope), key=lambda n: getattr(n, "lineno", 0))
    readings: dict[str, list[ast.Call]] = {}
    for node in nodes:
        for name, call in _assigned(node, clocks):
            readings.setdefault(name, []).append(call)
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            end = _reading(node.left, node, readings, clocks)
            begin = end and _last(readings.get(ast.unparse(node.right), []), end.lineno)
            if begin and end and begin.lineno < end.lineno:
                yield _timing(file, scope, begin, end)


def _timing(file: SourceFile, scope: ast.AST, begin: ast.Call, end: ast.Call) -> Timing:
    loops = [file.enclosing(call, *_LOOPS) for call in (begin, end)]
    return Timing(
        file=file.name,
        function=getattr(scope, "name", ""),
        begin=begin.lineno,
        end=end.lineno,
        is_each_time=bool(loops[0]) and loops[0][0] in loops[1],
    )


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions and classes in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _own_nodes(child)


def _assigned(node: ast.AST, clocks: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """The names that a statement gives a reading of a clock."""
    if isinstance(node, ast.Assign) and (call := _call_of(node.value, clocks)):
        yield from ((ast.unparse(target), call) for target in node.targets)


def _call_of(node: ast.expr, clocks: set[str]) -> ast.Call | None:
    is_clock = isinstance(node, ast.Call) and ast.unparse(node.func) in clocks
    return node if isinstance(node, ast.Call) and is_clock else None


def _reading(
    left: ast.expr, difference: ast.BinOp, readings: dict[str, list[ast.Call]], clocks: set[str]
) -> ast.Call | None:
    """The reading that something is subtracted from: it is read there, or was before."""
    found = _call_of(left, clocks)
    return found or _last(readings.get(ast.unparse(left), []), difference.lineno + 1)


def _last(readings: list[ast.Call], before: int) -> ast.Call | None:
    """The last reading on a line before another."""
    return next((call for call in reversed(readings) if call.lineno < before), None)
