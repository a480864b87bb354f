"""Where a step computes its gradients: the gradient function, its call, the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import Function
from vtpu.changes.source.names import called
from vtpu.program.modules import Module
from vtpu.program.op_names import Phase, phase_of

_MAKERS = ("jax.grad", "jax.value_and_grad")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gradient:
    """`made` is the call of `jax.grad` or `jax.value_and_grad`, `applied` the call of what that returned.

    `numbers` are the arguments that it differentiates by.
    """

    file: SourceFile
    made: ast.Call
    applied: ast.Call
    numbers: tuple[int, ...]
    has_aux: bool

    @property
    def loss(self) -> ast.expr | None:
        """The expression of the function that it differentiates."""
        given = self.made.args[0] if self.made.args else None
        return next((k.value for k in self.made.keywords if k.arg == "fun"), given)

    @property
    def loss_function(self) -> Function | None:
        """The loss's definition, where it stands in the same file."""
        return function_of(self.file, self.loss, self.made)

    @property
    def step(self) -> ast.FunctionDef | None:
        """The function that computes the gradients."""
        around = self.file.enclosing(self.applied, ast.FunctionDef)
        return around[0] if around and isinstance(around[0], ast.FunctionDef) else None


def find_gradient(situation: Situation) -> Gradient | str:
    """Where the program computes its gradients, or why that is not clear."""
    lines = gradient_lines(situation)
    found = [
        g for name in dict.fromkeys(name for name, _ in lines) for g in _in_file(situation, name)
    ]
    on_lines = [g for g in found if _is_on(g, lines)]
    if not lines:
        return "the program computes no gradients"
    if len(on_lines) == 1:
        return on_lines[0]
    if not on_lines:
        return "a call of `jax.grad` or `jax.value_and_grad` was not found where the gradients are computed"
    places = ", ".join(str(g.applied.lineno) for g in on_lines)
    return f"gradients are computed at several places (lines {places})"


def gradient_lines(situation: Situation) -> set[tuple[str, int]]:
    """The lines, also of callers, at which the program differentiates; libraries left out."""
    module = situation.program.module
    libraries = tuple(f.rstrip("/") + "/" for f in situation.run.recording.run.library_folders)
    return (
        {line for line in _lines(module) if not line[0].startswith(libraries)} if module else set()
    )


def function_of(file: SourceFile, node: ast.expr | None, near: ast.AST) -> Function | None:
    """The definition of a function that code names; of `partial(f, …)` that of f.

    Of several with one name the one in the innermost function around `near`.
    """
    if isinstance(node, ast.Lambda):
        return node
    if (
        isinstance(node, ast.Call)
        and called(file, node).rpartition(".")[2] == "partial"
        and node.args
    ):
        return function_of(file, node.args[0], near)
    if not isinstance(node, ast.Name):
        return None
    found = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef) and n.name == node.id]
    around = [*file.enclosing(near, ast.FunctionDef), file.tree]
    ranked = [f for scope in around for f in found if _scope(file, f) is scope]
    return ranked[-1] if len(ranked) == 1 else ranked[0] if ranked else None


def _scope(file: SourceFile, node: ast.AST) -> ast.AST:
    around = file.enclosing(node, ast.FunctionDef, ast.ClassDef)
    return around[0] if around else file.tree


def _lines(module: Module) -> Iterator[tuple[str, int]]:
    for instruction in module.by_id.values():
        if phase_of(instruction.op_name) in (Phase.FORWARD, Phase.BACKWARD):
            yield from ((f.file, f.line) for f in module.frames(instruction) if f.line)


def _in_file(situation: Situation, name: str) -> Iterator[Gradient]:
    file = situation.files.get(name)
    for node in ast.walk(file.tree) if file else ():
        if file and isinstance(node, ast.Call) and called(file, node) in _MAKERS:
            yield from _applied(file, node)


def _applied(file: SourceFile, made: ast.Call) -> Iterator[Gradient]:
    """The calls of a gradient function: where it is made, or by the name that it gets."""
    parent = file.parents.get(made)
    calls: list[ast.Call] = []
    if isinstance(parent, ast.Call) and parent.func is made:
        calls = [parent]
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        name = file.source(parent.targets[0])
        every = [n for n in ast.walk(file.tree) if isinstance(n, ast.Call)]
        calls = [c for c in every if file.source(c.func) == name and _sees(file, c, parent)]
    numbers = _numbers(made)
    for call in calls if numbers is not None else ():
        yield Gradient(file=file, made=made, applied=call, numbers=numbers or (0,), has_aux=_has_aux(made))  # fmt: skip


def _sees(file: SourceFile, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a call may mean the name that a statement gives: it stands in the same function, or within."""
    scope = _scope(file, statement)
    return scope is file.tree or scope in file.enclosing(call, ast.FunctionDef, ast.ClassDef)


def _is_on(gradient: Gradient, lines: set[tuple[str, int]]) -> bool:
    first, last = gradient.applied.lineno, gradient.applied.end_lineno or gradient.applied.lineno
    return any((gradient.file.name, n) in lines for n in range(first, last + 1))


def _numbers(made: ast.Call) -> tuple[int, ...] | None:
    """`argnums`, 0 by default; None where it is computed."""
    given = made.args[1] if len(made.args) > 1 else None
    given = next((k.value for k in made.keywords if k.arg == "argnums"), given)
    try:
        value = 0 if given is None else ast.literal_eval(given)
    except ValueError:
        return None
    return (value,) if isinstance(value, int) else tuple(value)


def _has_aux(made: ast.Call) -> bool:
    given = next((k.value for k in made.keywords if k.arg == "has_aux"), None)
    given = made.args[2] if len(made.args) > 2 else given
    return given is not None and not (isinstance(given, ast.Constant) and not given.value)
