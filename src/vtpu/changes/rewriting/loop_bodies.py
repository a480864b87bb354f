"""The body of a Python loop made a function, so that a transformation can be put around it.

`for layer in layers: x = x + mlp(layer, x)` becomes

    for layer in layers:
        def turn(x):
            x = x + mlp(layer, x)
            return x
        x = jax.checkpoint(turn)(x)

What a turn takes over from the one before goes in as an argument, and what is read later comes back; all
else is seen from inside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.source.loops import Loop, scope_of
from vtpu.changes.source.names import fresh, is_load, loaded
from vtpu.changes.source.statements import indentation

_PLAIN = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Pass)
_BLOCKS = (ast.If, ast.For)
_LEAVES = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


class NoFunction(Exception):
    """A loop's body that cannot become a function, and why."""


def as_function(file: SourceFile, loop: Loop, wrapper: str) -> tuple[Edit, ...]:
    """The edits that make a loop's body a function and call it through `wrapper`, which has `{}` for it.

    Raises:
        NoFunction: the body does what a function cannot, or does it elsewhere too.
    """
    _check(file, loop)
    body = loop.body
    taken = sorted(_read_first(body))
    given = _given(file, loop, taken)
    unsure = [name for name in given if name not in _surely(body)]
    parameters = ", ".join(dict.fromkeys([*taken, *unsure]))
    results = ", ".join(given)
    name = fresh(file, "turn")
    space = indentation(file, body[0])
    call = f"{space}{results} = {wrapper.format(name)}({parameters})\n"
    begin, end = _lines(file, body)
    head = Replace(
        file=file.name, begin=begin, end=begin, text=f"{space}def {name}({parameters}):\n"
    )
    behind = f"{space}    return {results}\n\n{call}"
    is_cut = not file.text[:end].endswith("\n")
    tail = Replace(file=file.name, begin=end, end=end, text="\n" * is_cut + behind)
    return head, *_indented(file, body), tail


def _check(file: SourceFile, loop: Loop) -> None:
    if isinstance(loop, ast.While):
        raise NoFunction("a `while` loop")
    first = loop.body[0]
    if file.text[file.offset(first.lineno, 0) : file.span(first)[0]].strip():
        raise NoFunction("its body stands on the line of the `for`")
    for statement in loop.body:
        _check_statement(file, statement)


def _check_statement(file: SourceFile, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if not isinstance(statement, _PLAIN + _BLOCKS):
        raise NoFunction(f"it also does `{_shown(file, statement)}`")
    for node in ast.walk(statement):
        is_text = isinstance(node, ast.Constant | ast.JoinedStr)
        if is_text and node.end_lineno != node.lineno:
            raise NoFunction("a text in it goes over several lines")
        if isinstance(node, _LEAVES):
            raise NoFunction(f"it also does `{_shown(file, statement)}`")
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            raise NoFunction(f"it changes `{file.source(node)}`")
    for inner in _inner(statement):
        _check_statement(file, inner)


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    return [*statement.body, *statement.orelse] if isinstance(statement, _BLOCKS) else []


def _shown(file: SourceFile, statement: ast.stmt) -> str:
    return file.source(statement).partition("\n")[0]


def _read_first(body: Sequence[ast.stmt]) -> set[str]:
    """The names that a body assigns, and may read before that: what one turn leaves to the next."""
    own = {name for statement in body for name in _assigned(statement)}
    found: set[str] = set()
    sure: set[str] = set()
    for statement in body:
        found |= (_reads(statement) & own) - sure
        sure |= _surely([statement])
    return found


def _reads(statement: ast.stmt) -> set[str]:
    """The names that a statement may read from before it."""
    if isinstance(statement, _BLOCKS):
        head = statement.test if isinstance(statement, ast.If) else statement.iter
        own = set(_targets(statement))
        reads = _read_in_order(statement.body, own) | _read_in_order(statement.orelse, set())
        return loaded([head]) | reads
    added = _targets(statement) if isinstance(statement, ast.AugAssign) else []
    return loaded([statement]) | set(added)


def _read_in_order(body: Sequence[ast.stmt], sure: set[str]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        found |= _reads(statement) - sure
        sure = sure | _surely([statement])
    return found


def _surely(body: Iterable[ast.stmt]) -> set[str]:
    """The names that are assigned whatever happens."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.If):
            found |= _surely(statement.body) & _surely(statement.orelse)
        elif not isinstance(statement, ast.For):
            found |= set(_targets(statement))
    return found


def _assigned(statement: ast.stmt) -> list[str]:
    """The names that a statement assigns, also those in its blocks."""
    return [*_targets(statement), *(n for s in _inner(statement) for n in _assigned(s))]


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign | ast.For):
        targets = [statement.target]
    else:
        return []
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def _given(file: SourceFile, loop: Loop, taken: Sequence[str]) -> list[str]:
    """What a body assigns that is read outside of it, or by the next turn."""
    inside = {id(n) for statement in loop.body for n in ast.walk(statement)}
    around = [n for n in ast.walk(scope_of(file, loop)) if id(n) not in inside]
    read = {n.id for n in around if is_load(n)} | set(taken)
    assigned = {name for statement in loop.body for name in _assigned(statement)}
    given = sorted(assigned & read)
    if not given:
        raise NoFunction("nothing of it is read later")
    return given


def _lines(file: SourceFile, body: Sequence[ast.stmt]) -> tuple[int, int]:
    """From the beginning of a body's first line to the end of its last."""
    last = body[-1]
    end = file.offset((last.end_lineno or last.lineno) + 1, 0)
    return file.offset(body[0].lineno, 0), min(end, len(file.text))


def _indented(file: SourceFile, body: Sequence[ast.stmt]) -> list[Edit]:
    last = body[-1].end_lineno or body[-1].lineno
    starts = [file.offset(n, 0) for n in range(body[0].lineno, last + 1) if file.line(n)]
    return [Replace(file=file.name, begin=at, end=at, text="    ") for at in starts]
