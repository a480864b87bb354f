"""Arrays that a jitted function captures, passed to it as arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Import, Replace, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.placing import behind
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.loops import scope_of
from vtpu.changes.source.names import bound, free_names, loads_of, spelled
from vtpu.changes.source.origins import Origin, Origins
from vtpu.changes.source.statements import stands_alone
from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape
from vtpu.units import format_bytes

KIND = "pass-constant"
_LEAST = 1 << 20  # bytes of constants in a program


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: all arrays that the function takes from around it."""
    size = _constant_bytes(situation.program.module)
    if size < _LEAST:
        yield NotApplicable(kind=KIND, reason="the program holds no large constant")
        return
    site = situation.site
    names = _captured(site) if site else []
    why = _why_not(situation, names)
    if site is None or why:
        reason = f"the program holds {format_bytes(size)} of constants; {why}"
        yield NotApplicable(kind=KIND, reason=reason)
        return
    listed = ", ".join(names)
    yield Change(
        kind=KIND,
        title=f"pass {listed} as an argument: {format_bytes(size)} of constants are in the program",
        numerics=Numerics.TOLERANCE,
        edits=tuple(_edits(site, names)),
        group=KIND,
        caution=f"what {listed} is later does not matter: the arrays are taken when the function is defined",
    )


def _constant_bytes(module: Module | None) -> int:
    """The bytes of a program's large constants."""
    shapes = [i.shape for i in module.by_id.values() if i.opcode == "constant"] if module else []
    sizes = [s.logical_bytes for s in shapes if isinstance(s, ArrayShape)]
    return sum(size for size in sizes if size >= _LEAST)


def _captured(site: JitSite) -> list[str]:
    """The arrays that a function itself takes from around it."""
    function = site.function
    if not isinstance(function, ast.FunctionDef):
        return []
    origins = Origins(site.file)
    return [
        name
        for name in sorted(free_names(function))
        if {origins.of(load) for load in loads_of(name, function.body)}
        <= {Origin.HOST, Origin.DEVICE}
        and _is_assigned_above(site.file, function, name)
    ]


def _is_assigned_above(file: SourceFile, function: ast.FunctionDef, name: str) -> bool:
    """Whether a name is assigned once, around the function and above it."""
    scope = scope_of(file, function)
    statements = [n for n in ast.walk(scope) if isinstance(n, ast.Assign) and name in bound([n])]
    return len(statements) == 1 and statements[0].lineno < function.lineno


def _why_not(situation: Situation, names: list[str]) -> str:
    """Why the constants cannot be passed; empty where they can."""
    site = situation.site
    if not situation.target.is_script:
        return "pass them as arguments, and name them in --args"
    if site is None or not isinstance(site.function, ast.FunctionDef):
        return "where its function is defined was not found"
    if not names:
        return f"{site.function.name} takes them from functions that it calls: pass them through"
    listed = ", ".join(names)
    record = situation.program.record
    if record and record.num_partitions > 1:
        return f"pass {listed} to {site.function.name}, put where it belongs by `jax.device_put`"
    return (
        f"pass {listed} to {site.function.name}, which is used in a special way"
        if _is_special(site)
        else ""
    )


def _is_special(site: JitSite) -> bool:
    """Whether a function could not be called as before with `functools.partial` around it."""
    function = site.function
    assert isinstance(function, ast.FunctionDef)
    given, file = function.args, site.file
    uses = loads_of(function.name, [file.tree])
    parent = file.parents.get(site.node)
    is_rebound = isinstance(parent, ast.Assign) and function.name in bound([parent])
    return (
        bool(given.vararg or given.kwarg or site.keyword("in_shardings"))
        or isinstance(file.parents.get(function), ast.ClassDef)
        or (not _is_decorator(site) and not is_rebound and len(uses) > 1)
        or any(isinstance(file.parents.get(use), ast.Attribute) for use in uses)
        or not stands_alone(file, function)
    )


def _is_decorator(site: JitSite) -> bool:
    return isinstance(site.function, ast.FunctionDef) and site.node in site.function.decorator_list


def _edits(site: JitSite, names: list[str]) -> Iterator[Edit]:
    """The names become keywords of the function, which `functools.partial` gives."""
    file, function = site.file, site.function
    assert isinstance(function, ast.FunctionDef)
    put, imports = spelled(file, "jax.device_put")
    given = ", ".join(f"{name}={put}({name})" for name in names)
    yield from (Import(file=file.name, statement="import functools"), *imports)
    yield _parameters(file, function, names)
    if _is_decorator(site):
        yield behind(
            file, function, "", f"{function.name} = functools.partial({function.name}, {given})"
        )
    else:
        begin, end = file.span(site.node)
        yield Wrap(
            file=file.name, begin=begin, end=end, before="functools.partial(", after=f", {given})"
        )


def _parameters(file: SourceFile, function: ast.FunctionDef, names: list[str]) -> Edit:
    """Keywords behind a function's last parameter."""
    given = function.args
    parts = [
        *given.posonlyargs,
        *given.args,
        *given.kwonlyargs,
        *given.defaults,
        *(d for d in given.kw_defaults if d),
    ]
    ends = [file.offset(p.end_lineno or p.lineno, p.end_col_offset or 0) for p in parts]
    begin = file.offset(function.lineno, function.col_offset)
    at = max(ends) if ends else file.text.index("(", begin) + 1
    words = [] if given.kwonlyargs else ["*"]
    text = ", ".join([*words, *names])
    return Replace(file=file.name, begin=at, end=at, text=f", {text}" if ends else text)


PROPOSAL = Proposal(
    kind=KIND,
    what="Arrays that a jitted function takes from around it become keywords of it, which `functools.partial` "
    "gives: the program takes them as arguments.",
    applies="A script's program holds 1 MiB or more of constants, which its function takes by name from an "
    "assignment above; on one device.",
    numerics="Equal but for what the compiler computes of constants in advance.",
    propose=propose,
)
