"""Where a script calls the step: the call, the loop around it, and where its arguments get their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.loops import loops_around, scope_of, statement_of
from vtpu.changes.source.names import bound, root_of
from vtpu.changes.source.statements import block_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepCall:
    """A call of the jitted function. `parameters` are the function's names of the arguments.

    `statement` is what the call stands in, `first` the outermost loop around it, or the statement itself:
    what has to be ready for all calls is so before that.
    """

    file: SourceFile
    node: ast.Call
    statement: ast.stmt
    first: ast.stmt
    parameters: tuple[str, ...]

    def argument(self, name: str) -> ast.expr | None:
        """What is given for a parameter; None where that cannot be told."""
        found = next((k.value for k in self.node.keywords if k.arg == name), None)
        if found is not None or name not in self.parameters:
            return found
        number = self.parameters.index(name)
        before = self.node.args[: number + 1]
        is_clear = len(before) > number and not any(isinstance(a, ast.Starred) for a in before)
        return before[number] if is_clear else None

    def star(self) -> tuple[str, int] | None:
        """The name of a sequence that gives all further arguments, `step(*arrays)`, and which is its first."""
        for number, given in enumerate(self.node.args):
            if isinstance(given, ast.Starred):
                is_last = number + 1 == len(self.node.args)
                is_name = isinstance(given.value, ast.Name)
                return (self.file.source(given.value), number) if is_last and is_name else None
        return None

    @property
    def targets(self) -> tuple[str, ...]:
        """What the results are assigned to, as it is written; empty where they are not taken apart."""
        statement = self.statement
        if not isinstance(statement, ast.Assign) or statement.value is not self.node:
            return ()
        target = statement.targets[0]
        given = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        return tuple(self.file.source(t) for t in given)


def step_call(situation: Situation) -> StepCall | None:
    """Where the program's function is called; None where that is not clear."""
    site, line = situation.site, situation.program.line
    file = situation.files.get(line.file) if line else None
    if site is None or line is None or file is None:
        return None
    return call_on(file, line.line, site)


def call_on(file: SourceFile, line: int, site: JitSite) -> StepCall | None:
    """The call of a jitted function on a line."""
    calls = [n for n in file.on_line(line, ast.Call) if isinstance(n, ast.Call)]
    calls = [c for c in calls if c is not site.node]
    named = [c for c in calls if _last_name(c.func) in site.names]
    alike = [c for c in calls if len(c.args) + len(c.keywords) == len(site.parameters)]
    found = named or alike
    if len(found) != 1 or (statement := statement_of(file, found[0])) is None:
        return None
    around = loops_around(file, found[0])
    parameters = site.parameters
    if parameters[:1] == ("self",) and isinstance(found[0].func, ast.Attribute):
        parameters = parameters[1:]
    return StepCall(
        file=file,
        node=found[0],
        statement=statement,
        first=around[-1] if around else statement,
        parameters=parameters,
    )


def binding(call: StepCall, value: ast.expr, *, for_all: bool) -> ast.stmt | None:
    """The last statement before the call that gives an argument its value.

    `for_all`: before all calls, not again for each one. None: there is none in the call's function, or one
    that may not run, as in an `if`.
    """
    file, text = call.file, call.file.source(value)
    before = call.first if for_all else call.statement
    binding = [
        statement
        for statement in _statements(scope_of(file, call.node))
        if (statement.end_lineno or 0) < before.lineno and _binds(file, statement, text)
    ]
    if not binding:
        return None
    last = max(binding, key=lambda statement: statement.lineno)
    is_sure = any(block_of(file, last) is block for block in _blocks_around(file, before))
    return last if is_sure else None


def is_bound_here(call: StepCall, value: ast.expr) -> bool:
    """Whether the call's function may give the argument's name another value: it is the function's own."""
    scope, root = scope_of(call.file, call.node), root_of(value)
    if root is None:
        return False
    if isinstance(scope, ast.Module):
        return True
    given = scope.args
    names = {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    is_own = root.id in names | bound(scope.body)
    return is_own if isinstance(value, ast.Name) else True


def module_binding(file: SourceFile, name: str) -> ast.stmt | None:
    """The last statement of the module itself that gives a name its value."""
    found = [s for s in file.tree.body if _binds(file, s, name)]
    return found[-1] if found else None


def assigned_value(statement: ast.stmt) -> ast.expr | None:
    """The value of an assignment to one target."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        is_one = not isinstance(statement.targets[0], ast.Tuple | ast.List)
        return statement.value if is_one else None
    return statement.value if isinstance(statement, ast.AnnAssign) else None


def _binds(file: SourceFile, statement: ast.stmt, text: str) -> bool:
    """Whether a simple statement assigns to what is written so."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and file.source(statement.target) == text
    if not isinstance(statement, ast.Assign):
        return False
    flat = [t for target in statement.targets for t in ast.walk(target)]
    return any(
        isinstance(t, ast.Name | ast.Attribute | ast.Subscript) and file.source(t) == text
        for t in flat
        if not isinstance(getattr(t, "ctx", None), ast.Load)
    )


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function in order, without those of functions within."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield from _statements(child)


def _blocks_around(file: SourceFile, statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks that a statement stands in, of its own function."""
    at: ast.AST | None = statement
    while isinstance(at, ast.stmt):
        yield block_of(file, at)
        at = file.parents.get(at)
        while at is not None and not isinstance(at, ast.stmt | ast.Module):
            at = file.parents.get(at)  # handlers of `try`, cases of `match`
        if isinstance(at, (*_FUNCTIONS, ast.ClassDef)):
            return


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
