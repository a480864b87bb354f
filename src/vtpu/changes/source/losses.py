"""How a loss puts the examples of a batch together: their mean, their sum, or another way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.gradients import function_of
from vtpu.changes.source.jit_sites import Function
from vtpu.changes.source.names import called, loaded
from vtpu.changes.source.returns import own_returns

_MEANS = ("mean", "average")
_FACTS = ("shape", "size", "ndim", "dtype")
_DEEPEST = 8


class Reduction(StrEnum):
    """What a loss is of the losses of the batch's examples."""

    MEAN = "mean"
    SUM = "sum"
    NONE = "none"  # it does not depend on the batch
    UNKNOWN = "unknown"


def reduction_of(file: SourceFile, loss: Function | None, batch: set[str]) -> Reduction:
    """How a loss reduces the batch, as far as its last expression tells.

    `batch` are the names that the batch has in it: what does not read them is the same for each part.
    """
    return _Reading(file, loss, batch).of_function(0) if loss else Reduction.UNKNOWN


def has_only_means(file: SourceFile, loss: Function | None, batch: set[str]) -> bool:
    """Whether the auxiliary results of a loss are means over the batch, or do not depend on it."""
    if loss is None:
        return False
    reading = _Reading(file, loss, batch)
    kinds = {reading.of(node, 0) for node in reading.auxiliary()}
    return bool(kinds) and kinds <= {Reduction.MEAN, Reduction.NONE}


class _Reading:
    """Reads one function."""

    def __init__(self, file: SourceFile, function: Function, batch: set[str]) -> None:
        self._file, self._function = file, function
        self._batch = depending(function, batch)

    def of_function(self, depth: int) -> Reduction:
        """What it returns; of several results the first."""
        value = self._returned()
        if value is None:
            return Reduction.UNKNOWN
        first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
        return self.of(first, depth)

    def auxiliary(self) -> list[ast.expr]:
        """The expressions that it returns beside the loss, trees of them taken apart."""
        value = self._returned()
        return (
            [e for more in value.elts[1:] for e in _flat(more)]
            if isinstance(value, ast.Tuple)
            else []
        )

    def _returned(self) -> ast.expr | None:
        if isinstance(self._function, ast.Lambda):
            return self._function.body
        values = [r.value for r in own_returns(self._function)]
        return values[0] if len(values) == 1 else None

    def of(self, node: ast.expr, depth: int) -> Reduction:
        """What an expression is."""
        if not read_in(node) & self._batch:
            return Reduction.NONE
        if isinstance(node, ast.BinOp) and depth < _DEEPEST:
            return self._of_operation(node, depth)
        if isinstance(node, ast.Call) and depth < _DEEPEST:
            return self._of_call(node, depth)
        inner = node.operand if isinstance(node, ast.UnaryOp) else None
        inner = self._assigned(node.id) if isinstance(node, ast.Name) else inner
        if inner is None or depth >= _DEEPEST:
            return Reduction.UNKNOWN
        return self.of(inner, depth + 1)

    def _of_operation(self, node: ast.BinOp, depth: int) -> Reduction:
        left = self.of(node.left, depth + 1)
        if isinstance(node.op, ast.Div) and self._is_count(node.right):
            return Reduction.MEAN if left is Reduction.SUM else Reduction.UNKNOWN
        right = self.of(node.right, depth + 1)
        both = {left, right}
        if isinstance(node.op, ast.Mult | ast.Div):
            return (both - {Reduction.NONE}).pop() if Reduction.NONE in both else Reduction.UNKNOWN
        if isinstance(node.op, ast.Add | ast.Sub) and both <= {Reduction.MEAN, Reduction.NONE}:
            return (
                Reduction.MEAN
            )  # also a mean and a penalty on the parameters, which each part has
        return left if left is right else Reduction.UNKNOWN

    def _of_call(self, node: ast.Call, depth: int) -> Reduction:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else called(self._file, node)
        name = name.rpartition(".")[2]
        is_whole = not any(k.arg in ("axis", "where", "weights") for k in node.keywords)
        operands = len(node.args) - (called(self._file, node).startswith("jax.numpy."))
        if name in (*_MEANS, "sum") and is_whole and operands <= 0:
            return Reduction.SUM if name == "sum" else Reduction.MEAN
        inner = function_of(self._file, node.func, node)
        if inner is None or inner is self._function:
            return Reduction.UNKNOWN
        given = self._given(inner, node)
        return _Reading(self._file, inner, given).of_function(depth + 1)

    def _given(self, inner: Function, call: ast.Call) -> set[str]:
        """The names that have the batch in a function that is called."""
        names = [a.arg for a in (*inner.args.posonlyargs, *inner.args.args)]
        placed = zip(names, call.args, strict=False)
        named = [(k.arg, k.value) for k in call.keywords if k.arg]
        return {n for n, value in (*placed, *named) if read_in(value) & self._batch} | self._batch

    def _is_count(self, node: ast.expr) -> bool:
        """Whether a divisor counts what was summed: `x.size`, `x.shape[0]`, `len(x)`."""
        if isinstance(node, ast.Name) and (value := self._assigned(node.id)) is not None:
            return self._is_count(value)
        text = self._file.source(node)
        if isinstance(node, ast.Call) and called(self._file, node) == "len":
            return bool(loaded([node]) & self._batch)
        is_size = text.endswith((".size", ".shape[0]"))
        return is_size and bool(loaded([node]) & self._batch)

    def _assigned(self, name: str) -> ast.expr | None:
        found = [
            n.value
            for n in ast.walk(self._function)
            if isinstance(n, ast.Assign)
            and len(n.targets) == 1
            and isinstance(n.targets[0], ast.Name)
            and n.targets[0].id == name
        ]
        return found[0] if len(found) == 1 else None


def _flat(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        return [e for element in node.elts for e in _flat(element)]
    if isinstance(node, ast.Dict):
        return [e for element in node.values for e in _flat(element)]
    return [node]


def depending(function: ast.AST, names: set[str]) -> set[str]:
    """The names in a function whose values come from some of them, these included; sizes do not count."""
    pairs = [pair for node in ast.walk(function) for pair in _assignments(node)]
    found, before = set(names), set[str]()
    while found != before:
        before = set(found)
        for target, value in pairs:
            if read_in(value) & found:
                found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return found


def read_in(node: ast.AST) -> set[str]:
    """The names whose values code reads; not those that it only asks for their shape or type."""
    if isinstance(node, ast.Attribute) and node.attr in _FACTS:
        return set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    return {name for child in ast.iter_child_nodes(node) for name in read_in(child)}


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter
    elif isinstance(node, ast.AugAssign | ast.NamedExpr | ast.AnnAssign) and node.value:
        yield node.target, node.value
