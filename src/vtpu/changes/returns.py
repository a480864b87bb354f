"""Which result of a step takes the place of which argument, where the function returns it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.changes.jit_sites import JitSite
from vtpu.changes.step_calls import StepCall

_NEW = re.compile(r"^(?:new|next|updated)_|_(?:new|next|out|updated)$|_?1$")


@dataclass(frozen=True, slots=True, eq=False)
class Returned:
    """What a function returns for an argument. `place`: its number among the results; None within one."""

    node: ast.expr
    place: int | None


def returned(site: JitSite, call: StepCall | None) -> dict[str, Returned]:
    """What the function returns for its next arguments, by the argument's name.

    Told by what the caller assigns the results to, and by names: `new_params` is the next `params`. What is
    not told is left out.
    """
    results = _results(site)
    found = _by_targets(results, call) if call else {}
    taken = {r.node for r in found.values()}
    for place, result in enumerate(results):
        for expression in _elements(result):
            name = _NEW.sub("", expression.id) if isinstance(expression, ast.Name) else ""
            if name in site.parameters and name not in found and expression not in taken:
                found[name] = Returned(expression, place if expression is result else None)
    return {**_by_place(site, results, found), **found}


def _by_targets(results: list[ast.expr], call: StepCall) -> dict[str, Returned]:
    """By what the caller assigns the results to: `params, loss = step(params, x)`."""
    if len(call.targets) != len(results):
        return {}
    given = {name: call.argument(name) for name in call.parameters}
    texts = {call.file.source(value): name for name, value in given.items() if value is not None}
    return {
        texts[target]: Returned(result, place)
        for place, (target, result) in enumerate(zip(call.targets, results, strict=True))
        if target in texts
    }


def _by_place(
    site: JitSite, results: list[ast.expr], found: dict[str, Returned]
) -> dict[str, Returned]:
    """Computed results among others that all stand where their arguments do: `return p - g, m, v`."""
    names = site.parameters
    places = [(names.index(n), r.place) for n, r in found.items() if r.place is not None]
    if not places or any(number != place for number, place in places):
        return {}
    last = max(number for number, _ in places)
    return {
        names[i]: Returned(result, i)
        for i, result in enumerate(results[:last])
        if isinstance(result, ast.BinOp | ast.Call) and names[i] not in found
    }


def _results(site: JitSite) -> list[ast.expr]:
    """What the function returns, taken apart; nothing where it returns at several places."""
    function = site.function
    if function is None:
        return []
    if isinstance(function, ast.Lambda):
        values: list[ast.expr | None] = [function.body]
    else:
        values = [r.value for r in own_returns(function)]
    if len(values) != 1 or values[0] is None:
        return []
    value = values[0]
    return list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]


def own_returns(function: ast.AST) -> Iterator[ast.Return]:
    """The return statements of a function, without those of functions within."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.Return):
            yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own_returns(child)


def _elements(expression: ast.expr) -> Iterator[ast.expr]:
    yield expression
    if isinstance(expression, ast.Tuple | ast.List):
        for element in expression.elts:
            yield from _elements(element)
