"""`jax.jit` applied once instead of in every turn of a loop or in every call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import SourceLine
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.placing import before, moved
from vtpu.changes.situation import Situation
from vtpu.changes.source.fixed_names import changing_names
from vtpu.changes.source.jit_sites import JitSite, jit_sites
from vtpu.changes.source.loops import (
    loops_around,
    outermost_keeping,
    scope_of,
    statement_of,
    statement_on,
)
from vtpu.changes.source.names import bound, free_names, fresh, loaded
from vtpu.changes.source.statements import has_long_text, stands_alone
from vtpu.recording.recording import FIRST_CALL

KIND = "jit-once"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change for each place that jits a new function again."""
    lines = _compiled_again(situation) if situation.target.is_script else {}
    if not lines:
        yield NotApplicable(kind=KIND, reason="no function is jitted again and again")
    for line, times in lines.items():
        file = situation.files.get(line.file)
        site = _site(file, line.line) if file else None
        if file is None or site is None:
            reason = f"{line} compiles {times} times; where it is jitted was not found"
            yield NotApplicable(kind=KIND, reason=reason)
        else:
            yield _hoisted(file, site, times)


def _compiled_again(situation: Situation) -> dict[SourceLine, int]:
    """The lines that compile what JAX takes for a new function each time, with how often."""
    again: dict[SourceLine, int] = {}
    for program in situation.run.summary.programs:
        for one in program.compilations:
            if one.reason is not None and one.line.line:
                is_new = one.reason == FIRST_CALL or one.reason.startswith("another function")
                again[one.line] = again.get(one.line, 0) + is_new
    return {line: times for line, times in again.items() if times > 1}


def _site(file: SourceFile, line: int) -> JitSite | None:
    """Where what a line calls is jitted: on it, or above in the same function."""
    statement = statement_on(file, line)
    if statement is None:
        return None
    scope = scope_of(file, statement)
    near = [s for s in jit_sites(file) if _is_made_again(file, s)]
    inside = [s for s in near if s.node in ast.walk(statement)]
    names = loaded([statement])
    above = [s for s in near if _name(file, s) in names and scope_of(file, _whole(s)) is scope]
    found = inside or above
    return found[0] if len(found) == 1 else None


def _whole(site: JitSite) -> ast.AST:
    """The definition that a decorator stands on, else the call."""
    function = site.function
    is_decorator = isinstance(function, ast.FunctionDef) and site.node in function.decorator_list
    return function if is_decorator and function is not None else site.node


def _is_made_again(file: SourceFile, site: JitSite) -> bool:
    whole = _whole(site)
    return bool(loops_around(file, whole)) or scope_of(file, whole) is not file.tree


def _name(file: SourceFile, site: JitSite) -> str:
    """The name that a jitted function has."""
    whole, parent = _whole(site), file.parents.get(site.node)
    if isinstance(whole, ast.FunctionDef):
        return whole.name
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.value is whole:
        return getattr(parent.targets[0], "id", "")
    return ""


def _hoisted(file: SourceFile, site: JitSite, times: int) -> Change | NotApplicable:
    whole = _whole(site)
    assert isinstance(whole, ast.expr | ast.stmt)
    place = f"{file.name}:{whole.lineno}"
    changing = changing_names(file, whole)
    if changing:
        taken = " and ".join(changing)
        reason = f"{place} jits a function that takes {taken} from around it, which may change: make it an argument"
        return NotApplicable(kind=KIND, reason=reason)
    anchor = _anchor(file, whole)
    if anchor is None or not stands_alone(file, anchor) or has_long_text(whole):
        reason = f"{place} jits a function again and again; no place is found where that can be done once"
        return NotApplicable(kind=KIND, reason=reason)
    return Change(
        kind=KIND,
        title=f"jit {_name(file, site) or 'it'} once before line {anchor.lineno}, not {times} times ({place})",
        numerics=Numerics.IDENTICAL,
        edits=tuple(_edits(file, site, anchor)),
        group=f"{KIND} {place}",
    )


def _anchor(file: SourceFile, whole: ast.AST) -> ast.stmt | None:
    """The statement before which a function can be jitted: the outermost loop that binds nothing it takes,
    or what stands around it in the module.
    """
    taken = free_names(whole) if isinstance(whole, ast.expr | ast.stmt) else set[str]()
    if loops_around(file, whole):
        return outermost_keeping(file, whole, taken)
    outer = [n for n in [whole, *file.enclosing(whole, ast.stmt)] if n in file.tree.body]
    anchor = outer[0] if outer and isinstance(outer[0], ast.stmt) else None
    if anchor is None:
        return None
    above = bound(file.tree.body[: file.tree.body.index(anchor)])
    return (
        anchor
        if taken & bound(file.tree.body) <= above and not taken & _local(file, whole)
        else None
    )


def _local(file: SourceFile, whole: ast.AST) -> set[str]:
    """The names that the functions around code bind."""
    around = file.enclosing(whole, ast.FunctionDef, ast.AsyncFunctionDef)
    return {n for f in around if isinstance(f, ast.FunctionDef) for n in bound(f.body)}


def _edits(file: SourceFile, site: JitSite, anchor: ast.stmt) -> Iterator[Edit]:
    whole, statement = _whole(site), statement_of(file, site.node)
    assert statement is not None
    if isinstance(whole, ast.stmt):
        yield from moved(file, whole, anchor)
    elif _name(file, site) and stands_alone(file, statement) and loops_around(file, whole):
        yield from moved(file, statement, anchor)
    else:
        name = fresh(file, "jitted")
        begin, end = file.span(site.node)
        yield before(file, anchor, f"{name} = {file.source(site.node)}")
        yield Replace(file=file.name, begin=begin, end=end, text=name)


PROPOSAL = Proposal(
    kind=KIND,
    what="`jax.jit` is applied once, before the loop or the function that applies it again and again.",
    applies="A script compiles what JAX takes for a new function each time, and the function takes nothing from "
    "around it that may change.",
    numerics="None: the same program.",
    propose=propose,
)
