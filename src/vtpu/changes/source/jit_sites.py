"""Where a function is jitted in the user's file, and what its parameters are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Keyword, Replace

_JITS = ("jit", "pjit", "filter_jit")
Function = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JitSite:
    """A call of `jax.jit`, or a decorator. `node` is the call, or the bare decorator's expression.

    `function` is what is jitted, where its definition stands in the same file.
    """

    file: SourceFile
    node: ast.expr
    function: Function | None

    @property
    def is_call(self) -> bool:
        """Whether keywords can be put in as they are."""
        return isinstance(self.node, ast.Call)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the function's positional parameters; empty where they are not known."""
        if self.function is None:
            return ()
        given = self.function.args
        return tuple(a.arg for a in (*given.posonlyargs, *given.args))

    @property
    def names(self) -> set[str]:
        """What the jitted function is called: by its definition and by what it is assigned to."""
        return _names(self)

    def keyword(self, name: str) -> ast.expr | None:
        """The value that a keyword has there."""
        given = self.node.keywords if isinstance(self.node, ast.Call) else []
        return next((k.value for k in given if k.arg == name), None)

    def with_keyword(self, name: str, value: str) -> Edit:
        """The edit that gives `jit` a keyword, or another value of it."""
        there = self.keyword(name)
        if there is not None:
            begin, end = self.file.span(there)
            return Replace(file=self.file.name, begin=begin, end=end, text=value)
        begin, end = self.file.span(self.node)
        return Keyword(
            file=self.file.name, begin=begin, end=end, is_call=self.is_call, name=name, value=value
        )


def jit_sites(file: SourceFile) -> Iterator[JitSite]:
    """Every place in a file where something is jitted."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if _is_jit(decorator) or _makes_jit(decorator):
                    yield JitSite(file=file, node=decorator, function=node)
        elif isinstance(node, ast.Call) and _is_jit(node.func) and node.args:
            yield JitSite(file=file, node=node, function=_definition(file, node.args[0]))


def site_of(file: SourceFile, function: str, line: int | None = None) -> JitSite | None:
    """Where the function that a program is named after is jitted.

    `function` is its own name or the name that the jitted one is assigned to; `line` a line of its body or
    of the call, which tells several of one name apart. None: it is not found, or not clear.
    """
    sites = [s for s in jit_sites(file) if function in _names(s)]
    if line is not None and len(sites) > 1:
        sites = [s for s in sites if _covers(s, line)] or sites
    return sites[0] if len(sites) == 1 else None


def is_jit_name(name: str) -> bool:
    """Whether a full name is that of a function that jits, `jax.jit`."""
    return name.rpartition(".")[2] in _JITS


def called_on(file: SourceFile, line: int) -> list[str]:
    """The names that are called on a line, the outermost call first: `step` of `step(x)` and `m.step(x)`."""
    calls = [n for n in reversed(file.on_line(line, ast.Call)) if isinstance(n, ast.Call)]
    names = [getattr(c.func, "id", getattr(c.func, "attr", "")) for c in calls]
    return [n for n in names if n]


def _names(site: JitSite) -> set[str]:
    """What the jitted function is called: by its definition and by what it is assigned to."""
    names: set[str] = set()
    if isinstance(site.function, ast.FunctionDef):
        names.add(site.function.name)
    elif isinstance(site.function, ast.Lambda):
        names.add("<lambda>")
    if isinstance(site.node, ast.Call) and site.node.args:
        argument = site.node.args[0]
        names |= {argument.id} if isinstance(argument, ast.Name) else set[str]()
        names |= {argument.attr} if isinstance(argument, ast.Attribute) else set[str]()
    parent = site.file.parents.get(site.node)
    if isinstance(parent, ast.Assign):
        names |= {t.id for t in parent.targets if isinstance(t, ast.Name)}
        names |= {t.attr for t in parent.targets if isinstance(t, ast.Attribute)}
    return names


def _covers(site: JitSite, line: int) -> bool:
    nodes = [n for n in (site.node, site.function) if n is not None]
    return any(n.lineno <= line <= (n.end_lineno or n.lineno) for n in nodes)


def _is_jit(node: ast.expr) -> bool:
    """`jit`, `jax.jit`, `nnx.jit` ..."""
    if isinstance(node, ast.Attribute):
        return node.attr in _JITS
    return isinstance(node, ast.Name) and node.id in _JITS


def _makes_jit(node: ast.expr) -> bool:
    """`partial(jax.jit, …)` and `jax.jit(…)` as decorators."""
    if not isinstance(node, ast.Call):
        return False
    if _is_jit(node.func):
        return True
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "partial" and bool(node.args) and _is_jit(node.args[0])


def _definition(file: SourceFile, node: ast.expr) -> Function | None:
    """The definition of what is jitted; of `partial(f, …)` that of f."""
    if isinstance(node, ast.Lambda):
        return node
    if isinstance(node, ast.Call) and node.args:
        return _definition(file, node.args[0])
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
    found = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else None
