"""Which result of a step takes the place of which argument, where the function returns it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.state import State
from vtpu.changes.source.step_calls import StepCall

_NEW = re.compile(r"^(?:new|next|updated)_|_(?:new|next|out|updated)$|_?1$")


@dataclass(frozen=True, slots=True, eq=False)
class Returned:
    """What a function returns for an argument. `place`: its number among the results; None within one."""

    node: ast.expr
    place: int | None


def returned(site: JitSite, call: StepCall | None, state: State) -> dict[str, Returned]:
    """What the function returns for its next arguments, by the argument's name.

    Told by what the caller assigns the results to, by names (`new_params` is the next `params`), and by shapes.
    What is not told is left out.
    """
    results = results_of(site)
    found = _by_targets(results, call) if call else {}
    taken = {r.node for r in found.values()}
    for place, result in enumerate(results):
        for expression in _elements(result):
            name = _NEW.sub("", expression.id) if isinstance(expression, ast.Name) else ""
            if name in site.parameters and name not in found and expression not in taken:
                found[name] = Returned(expression, place if expression is result else None)
    return {**_by_shapes(results, found, state), **found}


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


def _by_shapes(
    results: list[ast.expr], found: dict[str, Returned], state: State
) -> dict[str, Returned]:
    """Results that have the arrays of an argument, where the others stand around them as they must."""
    trees: dict[str, list[str]] = {}
    for array in state.arrays:
        trees.setdefault(array.tree, []).append(array.kind)
    names = {r.place: name for name, r in found.items() if name in trees}
    more: dict[str, Returned] = {}
    at = 0
    for place, result in enumerate(results):
        name = names.get(place)
        if name is None:
            left = {n: kinds for n, kinds in trees.items() if n not in found and n not in more}
            name = next(
                (n for n, kinds in left.items() if _stand_at(kinds, state.results, at)), None
            )
            if name is not None:
                more[name] = Returned(result, place)
        at += len(trees[name]) if name is not None else 1
    return more if at == len(state.results) else {}


def _stand_at(kinds: list[str], results: Sequence[str], at: int) -> bool:
    """Whether results from a place on are such arrays; numbers alone tell nothing."""
    return list(results[at : at + len(kinds)]) == kinds and any("()" not in k for k in kinds)


def results_of(site: JitSite) -> list[ast.expr]:
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
