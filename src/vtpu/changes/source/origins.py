"""What an expression of the user's holds, judged by where it is made: numpy's array, one on a device, a number."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.jit_sites import jit_sites
from vtpu.changes.source.loops import scope_of
from vtpu.changes.source.names import called, definition_of, loaded

_NUMBERS = ("int", "float", "len", "round", "abs", "sum", "range", "enumerate", "bool", "time.time")
_ON_HOST = ("jax.device_get",)


class Origin(StrEnum):
    """What something is."""

    HOST = "array of the host"
    DEVICE = "array on a device"
    NUMBER = "number of Python"
    UNKNOWN = "unknown"


class Origins:
    """Says of the expressions of a file what they are."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._jitted = set(_jitted_names(file))

    def of(self, node: ast.expr) -> Origin:
        """What an expression is."""
        return self._of(node, frozenset())

    def is_jitted(self, call: ast.Call) -> bool:
        """Whether a call is one of a jitted function."""
        return called(self._file, call).rpartition(".")[2] in self._jitted

    def _of(self, node: ast.expr, seen: frozenset[str]) -> Origin:
        kind = Origin.UNKNOWN
        match node:
            case ast.Constant(value=int() | float()):
                kind = Origin.NUMBER
            case ast.Name(id=name):
                kind = self._of_name(node, name, seen)
            case ast.Call():
                kind = self._of_call(node, seen)
            case ast.BinOp(left=left, right=right):
                kind = _joined(self._of(left, seen), self._of(right, seen))
            case ast.Attribute(attr="ndim" | "size"):
                kind = Origin.NUMBER
            case (
                ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner)
            ):
                kind = self._of(inner, seen)
            case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                kind = _common(self._of(part, seen) for part in parts)
            case _:
                pass
        return kind

    def _of_name(self, node: ast.expr, name: str, seen: frozenset[str]) -> Origin:
        if name in seen:
            return Origin.UNKNOWN
        kinds = {self._of(value, seen | {name}) for value in self.values_of(node, name)}
        if len(kinds) > 1 and self._is_made_of_itself(node, name):
            kinds.discard(Origin.UNKNOWN)
        return _common(kinds)

    def _of_call(self, call: ast.Call, seen: frozenset[str]) -> Origin:
        name = called(self._file, call)
        if name.startswith("numpy.") or name in _ON_HOST:
            return Origin.HOST
        if name.startswith("jax.") or self.is_jitted(call):
            return Origin.DEVICE
        if name in _NUMBERS:
            return Origin.NUMBER
        if isinstance(call.func, ast.Attribute):
            return self._of(call.func.value, seen)
        return self._of_results(call, seen)

    def _of_results(self, call: ast.Call, seen: frozenset[str]) -> Origin:
        """What a function of the file returns."""
        name = called(self._file, call)
        function = definition_of(self._file, name)
        if function is None or name in seen:
            return Origin.UNKNOWN
        returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
        return _common(self._of(value, seen | {name}) for value in returned)

    def _is_made_of_itself(self, node: ast.expr, name: str) -> bool:
        """Whether a name is assigned something of itself, which tells nothing new of it."""
        return any(name in loaded([value]) for value in self.values_of(node, name))

    def values_of(self, node: ast.expr, name: str) -> Iterator[ast.expr]:
        """What is assigned to a name, where it is a local one in its function, else in the module."""
        scope = scope_of(self._file, node)
        found = list(_assigned(self._file, scope, name))
        number = _parameter_number(scope, name)
        if number is not None:
            found += _given(self._file, scope, number, name)
        elif not found:
            found = list(_assigned(self._file, self._file.tree, name))
        yield from found or [ast.Constant(value=None)]


def _common(kinds: Iterable[Origin]) -> Origin:
    """The one kind that there is."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else Origin.UNKNOWN


def _assigned(file: SourceFile, scope: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        if isinstance(node, ast.stmt) and node is not scope and scope_of(file, node) is scope:
            for target, value in _pairs(node):
                if isinstance(target, ast.Name) and target.id == name:
                    yield value


def _pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement assigns to what; of a call's results each is taken for the whole."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value):
            if value is not None:
                yield target, value
        case ast.For(target=target, iter=source):
            is_counted = isinstance(source, ast.Call) and ast.unparse(source.func) == "range"
            yield from _unpacked(target, source if is_counted else ast.Constant(value=None))
        case _:
            return


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    is_like = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    values = (
        value.elts
        if is_like and isinstance(value, ast.Tuple | ast.List)
        else [value] * len(target.elts)
    )
    for one, of_it in zip(target.elts, values, strict=True):
        yield from _unpacked(one, of_it)


def _parameter_number(scope: ast.AST, name: str) -> int | None:
    """The place of a parameter of a function; None where the name is none."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    names = [a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)]
    return names.index(name) if name in names else None


def _given(file: SourceFile, scope: ast.AST, number: int, name: str) -> Iterator[ast.expr]:
    """What the calls of a function in its file give for a parameter."""
    for call in ast.walk(file.tree):
        if isinstance(call, ast.Call) and called(file, call) == getattr(scope, "name", ""):
            by_name = [k.value for k in call.keywords if k.arg == name]
            yield from call.args[number : number + 1] or by_name or [ast.Constant(value=None)]


def _joined(one: Origin, other: Origin) -> Origin:
    """What an operation of two gives."""
    for kind in (Origin.DEVICE, Origin.HOST):
        if kind in (one, other):
            return kind
    return one if one is other else Origin.UNKNOWN


def _jitted_names(file: SourceFile) -> Iterator[str]:
    for site in jit_sites(file):
        if not isinstance(site.node, ast.Call) or site.node in getattr(
            site.function, "decorator_list", ()
        ):
            yield getattr(site.function, "name", "")
        parent = file.parents.get(site.node)
        if isinstance(parent, ast.Assign):
            for target in parent.targets:
                yield getattr(target, "id", getattr(target, "attr", ""))
