"""What a call of `jax.jit` says about shardings, changed for arguments that are spread otherwise."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.returns import results_of, returned
from vtpu.changes.source.state import State
from vtpu.changes.source.step_calls import StepCall, binding


def jit_split(
    site: JitSite | None,
    call: StepCall,
    state: State,
    trees: Iterable[str],
    shardings: Callable[[str], str],
) -> tuple[Edit, ...] | str:
    """`in_shardings` and `out_shardings` for arguments of these names, or why they cannot be changed.

    `shardings` is the code of an argument's new shardings, made of its value's.
    """
    names = list(trees)
    there = site.keyword("in_shardings") if site is not None else None
    if site is None or there is None:
        return freed_results(site, call, state, names)
    values = {name: call.argument(name) for name in names}
    is_known = isinstance(there, ast.Tuple) and set(names) <= set(site.parameters)
    if not isinstance(there, ast.Tuple) or not is_known or not _is_ready(site, call, values):
        return asks_elsewhere(site)
    freed = freed_results(site, call, state, names)
    if isinstance(freed, str):
        return freed
    asked = [
        replaced(site.file, there.elts[number], shardings(call.file.source(value)))
        for name, value in values.items()
        if value is not None and (number := site.parameters.index(name)) < len(there.elts)
    ]
    return (*asked, *freed)


def asks_elsewhere(site: JitSite) -> str:
    """The reason where `in_shardings` would have to change."""
    return f"`in_shardings` of {place_of(site)} says how the arguments are spread: change it there"


def freed_results(
    site: JitSite | None, call: StepCall | None, state: State, trees: Iterable[str]
) -> tuple[Edit, ...] | str:
    """`out_shardings` that leave it to the compiler how new arguments are spread: it does as with the old."""
    there = site.keyword("out_shardings") if site is not None else None
    if site is None or there is None:
        return ()
    results = returned(site, call, state)
    places = [results[tree].place if tree in results else None for tree in trees]
    known = [p for p in places if p is not None]
    if len(known) < len(places):
        return f"`out_shardings` of {place_of(site)} says how the results are spread: change it too"
    if isinstance(there, ast.Tuple):
        elements = [there.elts[p] for p in known if p < len(there.elts)]
        return tuple(replaced(site.file, element, "None") for element in elements)
    if not isinstance(there, ast.Call | ast.Name | ast.Attribute):
        return f"`out_shardings` of {place_of(site)} is not understood"
    count, text = len(results_of(site)), site.file.source(there)  # one sharding for all results
    listed = ", ".join("None" if place in known else text for place in range(count))
    return (replaced(site.file, there, f"({listed})" if count > 1 else "None"),)


def place_of(site: JitSite) -> str:
    """Where it stands, for people."""
    return f"{site.file.name}:{site.node.lineno}"


def replaced(file: SourceFile, node: ast.expr, text: str) -> Replace:
    """Other code in the place of an expression."""
    begin, end = file.span(node)
    return Replace(file=file.name, begin=begin, end=end, text=text)


def _is_ready(site: JitSite, call: StepCall, values: dict[str, ast.expr | None]) -> bool:
    """Whether the arguments have their values where `jit` is called."""
    if site.file is not call.file or not site.is_call:
        return False
    made = [binding(call, v, for_all=True) for v in values.values() if v is not None]
    return len(made) == len(values) and all(s and s.lineno < site.node.lineno for s in made)
