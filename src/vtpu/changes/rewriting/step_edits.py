"""Edits within the jitted function: what it does first with an argument, what it does last with a result."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from vtpu.changes.edits import Edit, Keyword, Wrap
from vtpu.changes.rewriting.placing import before
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.returns import returned
from vtpu.changes.source.state import Part, State
from vtpu.changes.source.statements import stands_alone
from vtpu.changes.source.step_calls import StepCall


def results_wrapped(
    site: JitSite,
    call: StepCall | None,
    state: State,
    parts: Sequence[Part],
    function: str,
    more: str,
) -> tuple[Edit, ...] | str:
    """What the function returns for its next arguments, each through `function(…, more)`; or why not."""
    found = returned(site, call, state)
    if missing := [p.tree for p in parts if p.tree not in found]:
        return (
            f"where {site.file.name} returns the new {', '.join(missing)} was not found: it would have to be "
            "treated there as the argument is"
        )
    edits: list[Edit] = []
    for part in parts:
        begin, end = site.file.span(found[part.tree].node)
        after = f", {more}{part.below_text})"
        edits.append(
            Wrap(file=site.file.name, begin=begin, end=end, before=f"{function}(", after=after)
        )
    return tuple(edits)


def first_lines(site: JitSite, *lines: str) -> tuple[Edit, ...] | None:
    """Lines of code before everything else that the function does; None where it has no place for them."""
    function = site.function
    if not isinstance(function, ast.FunctionDef):
        return None
    body = function.body
    is_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = body[1] if is_docstring and len(body) > 1 else body[0]
    return (before(site.file, first, *lines),) if stands_alone(site.file, first) else None


def with_compiler_option(site: JitSite, name: str, value: bool) -> Edit | None:
    """The edit that gives `jit` a compiler option more; None where those that it has are no literal."""
    there = site.keyword("compiler_options")
    if there is None:
        begin, end = site.file.span(site.node)
        return Keyword(
            file=site.file.name,
            begin=begin,
            end=end,
            is_call=site.is_call,
            name="compiler_options",
            value=repr({name: value}),
        )
    try:
        known = ast.literal_eval(there)
    except ValueError:
        return None
    if not isinstance(known, dict) or name in known:
        return None
    return site.with_keyword("compiler_options", repr({**known, name: value}))
