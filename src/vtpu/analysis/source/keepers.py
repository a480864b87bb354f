"""Which line of a program keeps the arrays that another line makes: `history.append(extra)`.

The value that a line makes is followed through names of its function, and through what it returns to the
lines that called it. What copies a value to the host (`float(loss)`, `np.asarray(x)`) ends the trail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.analysis.source_lines import SourceLine

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ADDS = {"append", "appendleft", "add", "insert", "extend", "put", "put_nowait"}
_PARTS = {*_ADDS, "setdefault"}
_REMOVES = {"pop", "popleft", "popitem", "clear", "remove"}
_TO_HOST = {
    "float", "int", "bool", "str", "repr", "len", "print", "asarray", "array", "device_get", "item", "tolist",
    "block_until_ready", "copy_to_host_async", "format",
}  # fmt: skip
_GATHERS = {
    "stack", "concatenate", "concat", "hstack", "vstack", "array", "asarray", "mean", "sum", "device_get",
    "map", "tree_map",
}  # fmt: skip
_WRAPPERS = (
    ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Name, ast.Attribute, ast.Subscript, ast.Starred,
    ast.IfExp,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """A line that keeps a value, and in what: `history` for `history.append(extra)`.

    `is_bounded`: the program takes things out of it too, or it is of fixed size. `is_gathered`: all of it
    is put together behind the loop.
    """

    line: SourceLine
    container: str
    is_bounded: bool
    is_gathered: bool


def find_keeper(
    files: SourceFiles, frames: Sequence[SourceLine], result: tuple[int, int] | None = None
) -> Keeper | None:
    """What keeps the value that the innermost of the user's `frames` makes; None where it is not seen.

    `result`: which of how many values it is.
    """
    for frame in frames:
        file = files.get(frame.file)
        statement = _statement_at(file, frame.line) if file else None
        if file is None or statement is None:
            return None
        trail = _Trail(file, statement, frame, result)
        if keeper := trail.keeper():
            return keeper
        if not trail.is_returned:
            return None
        result = None
    return None


def assigned_name(
    files: SourceFiles, line: SourceLine, result: tuple[int, int] | None = None
) -> str | None:
    """The user's name of what a line makes, `params` of `params = init(key)`.

    `result`: which of how many values it is, where the line takes them apart. None where it has no name.
    """
    file = files.get(line.file)
    statement = _statement_at(file, line.line) if file else None
    names = list(_targets(statement, result)) if statement else []
    return names[0] if len(names) == 1 else None


def _statement_at(file: SourceFile, line: int) -> ast.stmt | None:
    """The smallest statement that has a line; of a compound one that is its head."""
    found = [n for n in file.on_line(line, ast.stmt) if isinstance(n, ast.stmt)]
    return found[0] if found else None


def _targets(statement: ast.stmt, result: tuple[int, int] | None) -> Iterator[str]:
    """Names that a statement gives its value, as far as they can be the one of `result`."""
    targets = list[ast.expr]()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    for target in targets:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        is_one_each = result is not None and result[1] == len(elements) > 1
        is_one_each &= not any(isinstance(e, ast.Starred) for e in elements)
        chosen = elements[result[0] : result[0] + 1] if result and is_one_each else elements
        bare = [e.value if isinstance(e, ast.Starred) else e for e in chosen]
        yield from (ast.unparse(e) for e in bare if isinstance(e, ast.Name | ast.Attribute))


class _Trail:
    """Where the value of one statement goes in its function."""

    def __init__(
        self,
        file: SourceFile,
        statement: ast.stmt,
        frame: SourceLine,
        result: tuple[int, int] | None,
    ) -> None:
        self._file, self._statement, self._frame = file, statement, frame
        self._scope = next(iter(file.enclosing(statement, *_SCOPES)), file.tree)
        self._names = set(_targets(statement, result))
        self._follow()

    @property
    def is_returned(self) -> bool:
        """Whether the function hands the value to its caller."""
        if isinstance(self._statement, ast.Return):
            return True
        ends = (ast.Return, ast.Yield)
        return any(
            isinstance(n, ends) and n.value is not None and self._mentions(n.value)
            for n in ast.walk(self._scope)
        )

    def keeper(self) -> Keeper | None:
        """The first line that puts the value into something that grows."""
        for sites in (self._own_sites(), self._sites()):
            if found := sorted(sites, key=lambda site: getattr(site[0], "lineno", 0)):
                return self._keeper(*found[0])
        return None

    def _follow(self) -> None:
        """Adds the names that a value gets by plain assignment, alone or in a container."""
        for _ in range(4):
            before = len(self._names)
            for node in _nodes(self._scope, ast.Assign):
                if isinstance(node.value, _WRAPPERS) and self._mentions(node.value):
                    self._names.update(_targets(node, None))
            if len(self._names) == before:
                return

    def _own_sites(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Where the statement itself keeps what it makes: `history.append(step(x))`."""
        for call in _nodes(self._statement, ast.Call):
            added = call.args if _adds(call) else []
            if any(isinstance(n, ast.Call) for argument in added for n in _raw(argument)):
                yield call, _container(call)
        yield from self._assigned_into(self._statement, is_own=True)

    def _sites(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Where the function puts a name of the value into something."""
        for call in _nodes(self._scope, ast.Call):
            values = [*call.args, *(k.value for k in call.keywords)]
            if _adds(call) and any(self._mentions(v) for v in values):
                yield call, _container(call)
        for statement in _nodes(self._scope, ast.stmt):
            yield from self._assigned_into(statement, is_own=False)

    def _assigned_into(self, node: ast.stmt, *, is_own: bool) -> Iterator[tuple[ast.AST, ast.expr]]:
        """`kept[i] = value`, `kept += [value]`, `kept = kept + [value]`, `kept = [*kept, value]`."""
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List | ast.Tuple):
            if isinstance(node.op, ast.Add) and (is_own or self._mentions(node.value)):
                yield node, node.target
        elif isinstance(node, ast.Assign) and (is_own or self._mentions(node.value)):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant):
                    yield node, target.value
                elif isinstance(target, ast.Name | ast.Attribute) and _extends(node.value, target):
                    yield node, target

    def _mentions(self, value: ast.expr) -> bool:
        """Whether an expression has the value in it, as it is on the device."""
        return any(
            isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) in self._names
            for n in _raw(value)
        )

    def _keeper(self, node: ast.AST, container: ast.expr) -> Keeper:
        number = getattr(node, "lineno", self._frame.line)
        name = ast.unparse(container)
        return Keeper(
            line=SourceLine(self._frame.file, number, self._frame.function),
            container=name,
            is_bounded=_is_bounded(self._file, name) or _wraps_around(node),
            is_gathered=_is_gathered(self._file, name, node),
        )


_Node = TypeVar("_Node", bound=ast.AST)


def _nodes(root: ast.AST, kind: type[_Node]) -> Iterator[_Node]:
    """The nodes of a kind at and below a node."""
    return (node for node in ast.walk(root) if isinstance(node, kind))


def _raw(value: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression, without those that a call takes to the host."""
    yield value
    if isinstance(value, ast.Call) and _called(value) in _TO_HOST:
        return
    for child in ast.iter_child_nodes(value):
        yield from _raw(child)


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _adds(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _ADDS


def _container(call: ast.Call) -> ast.expr:
    """What a call adds to: of `kept.setdefault(k, []).append(x)` that is `kept`, of `kept[k].append(x)` too."""
    found: ast.expr = call
    while isinstance(found, ast.Call | ast.Subscript) or (
        isinstance(found, ast.Attribute) and found.attr in _PARTS
    ):
        found = found.func if isinstance(found, ast.Call) else found.value
    return found


def _extends(value: ast.expr, target: ast.expr) -> bool:
    """Whether a value is what the target was, with more: `[*kept, x]`, `kept + [x]`."""
    name = ast.unparse(target)
    if isinstance(value, ast.List | ast.Tuple):
        starred = (e.value for e in value.elts if isinstance(e, ast.Starred))
        return any(ast.unparse(e) == name for e in starred)
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    return ast.unparse(value.left) == name and isinstance(value.right, ast.List | ast.Tuple)


# ---- whether it grows for ever -----------------------------------------------------------------


def _is_bounded(file: SourceFile, name: str) -> bool:
    """Whether a program also empties or renews a container, or gave it a fixed size."""
    return any(_bounds(file, node, name) for node in ast.walk(file.tree))


def _bounds(file: SourceFile, node: ast.AST, name: str) -> bool:
    """Whether a statement or call takes things out of a container, or says how many there may be."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attribute)):
            return attribute in _REMOVES and ast.unparse(value) == name
        case ast.Delete(targets=targets):
            return any(f"{ast.unparse(t)}[".startswith(f"{name}[") for t in targets)
        case ast.Assign(targets=targets, value=value) if name in map(ast.unparse, targets):
            return _has_fixed_size(value) or _is_renewal(file, node)
        case _:
            return False


def _has_fixed_size(value: ast.expr) -> bool:
    """`deque(maxlen=8)`, `[None] * 8`, `[None for _ in range(8)]`."""
    if isinstance(value, ast.Call):
        return any(keyword.arg == "maxlen" for keyword in value.keywords)
    return isinstance(value, ast.ListComp) or (
        isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult)
    )


def _is_renewal(file: SourceFile, node: ast.Assign) -> bool:
    """Whether a loop makes a container anew, or only a part of it stays: `kept = kept[-8:]`."""
    extends = any(_extends(node.value, target) for target in node.targets)
    return bool(file.enclosing(node, *_LOOPS)) and not extends


def _wraps_around(node: ast.AST) -> bool:
    """`kept[i % 8] = x`"""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for t in targets for n in ast.walk(t)
    )


def _is_gathered(file: SourceFile, name: str, site: ast.AST) -> bool:
    """Whether something puts all of a container together: `jnp.stack(kept)`."""
    return any(
        isinstance(node, ast.Call)
        and node is not site
        and _called(node) in _GATHERS
        and any(name in map(ast.unparse, _names_in(argument)) for argument in node.args)
        for node in ast.walk(file.tree)
    )


def _names_in(value: ast.expr) -> Iterator[ast.expr]:
    return (n for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute))
