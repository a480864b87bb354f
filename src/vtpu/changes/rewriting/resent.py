"""What a statement in a loop sends to the device again although it stays the same."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.rewriting.placing import before
from vtpu.changes.source.jit_sites import site_of
from vtpu.changes.source.loops import Loop, outermost_keeping
from vtpu.changes.source.names import called, fresh, is_load, loaded, root_of, spelled, writes_to
from vtpu.changes.source.origins import Origin, Origins
from vtpu.changes.source.reads import is_pure

_CONVERSIONS = ("jax.numpy.asarray", "jax.numpy.array", "jax.device_put")
_ABOUT = ("shape", "dtype", "ndim", "size")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """An expression that is sent again: the loop that leaves it as it is, and what makes it an array of the device's.

    `name` is what the array may be called, `what` names it for people. `is_exact`: it is the same bits in every type.
    """

    node: ast.expr
    loop: Loop
    name: str
    value: str
    what: str
    needs: tuple[Edit, ...] = ()
    is_exact: bool = True


class CannotKeep(Exception):
    """Why something has to be sent again."""


def resent(file: SourceFile, statement: ast.stmt) -> list[Kept]:
    """What a statement sends again.

    Raises:
        CannotKeep: something that it sends may be changed in between.
    """
    if not isinstance(statement, _SIMPLE):
        return []
    origins = Origins(file)
    found: list[Kept] = []
    for node, origin in _sent(file, origins, statement):
        loop = outermost_keeping(file, statement, _roots(node))
        if loop is None:
            continue
        if origin is Origin.HOST:
            _check_unchanged(file, loop, node)
        found.append(_keep(file, loop, node, origin))
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))


def edits_of(file: SourceFile, kept: Iterable[Kept], taken: set[str]) -> list[Edit]:
    """What has to be written: an array before the loop, its name in it. `taken` are names that other edits
    gave, and gets those of these.
    """
    edits: list[Edit] = []
    names: dict[tuple[Loop, str], str] = {}
    for one in kept:
        name = names.get((one.loop, one.value)) or fresh(file, one.name, taken)
        names[one.loop, one.value] = name
        taken.add(name)
        begin, end = file.span(one.node)
        edits += [*one.needs, before(file, one.loop, f"{name} = {one.value}")]
        edits.append(Replace(file=file.name, begin=begin, end=end, text=name))
    return edits


def _sent(
    file: SourceFile, origins: Origins, statement: ast.stmt
) -> Iterator[tuple[ast.expr, Origin]]:
    """The parts of a statement that are the host's where an array of the device's could be."""
    inside: set[ast.AST] = set()
    for node in ast.walk(statement):
        if node in inside:
            continue
        if isinstance(node, ast.Call) and called(file, node) in _CONVERSIONS and node.args:
            is_same = all(is_pure(file, a) for a in (*node.args, *(k.value for k in node.keywords)))
            if is_same and origins.of(node.args[0]) in (Origin.HOST, Origin.NUMBER):
                inside |= set(ast.walk(node))
                yield node, Origin.HOST
        elif isinstance(node, ast.Call):
            yield from _sent_arguments(file, origins, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            yield from _sent_operands(origins, node)


def _sent_arguments(
    file: SourceFile, origins: Origins, call: ast.Call
) -> Iterator[tuple[ast.expr, Origin]]:
    is_jitted = origins.is_jitted(call)
    if not is_jitted and not called(file, call).startswith("jax."):
        return
    site = site_of(file, called(file, call).rpartition(".")[2]) if is_jitted else None
    has_static = bool(site and (site.keyword("static_argnums") or site.keyword("static_argnames")))
    donated = site.keyword("donate_argnums") or site.keyword("donate_argnames") if site else None
    for value in (*call.args, *(k.value for k in call.keywords)):
        for leaf in _leaves(value):
            origin = origins.of(leaf)
            if (
                origin is Origin.HOST
                and donated is None
                and isinstance(leaf, ast.Name | ast.Attribute)
            ) or (origin is Origin.NUMBER and is_jitted and not has_static and _is_plain(leaf)):
                yield leaf, origin


def _sent_operands(origins: Origins, node: ast.BinOp) -> Iterator[tuple[ast.expr, Origin]]:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if origins.of(other) is Origin.DEVICE and _is_plain(one):
            origin = origins.of(one)
            if origin in (Origin.HOST, Origin.NUMBER):
                yield one, origin


def _keep(file: SourceFile, loop: Loop, node: ast.expr, origin: Origin) -> Kept:
    text = file.source(node)
    if isinstance(node, ast.Call):
        value, needs = text, ()
    else:
        maker = "jax.device_put" if origin is Origin.HOST else "jax.numpy.asarray"
        spelling, needs = spelled(file, maker)
        value = f"{spelling}({text})"
    return Kept(
        node=node,
        loop=loop,
        name=_name(node),
        value=value,
        what=text,
        needs=needs,
        is_exact=origin is Origin.HOST or _is_short(node),
    )


def _check_unchanged(file: SourceFile, loop: Loop, node: ast.expr) -> None:
    """An array of numpy's can be written to: checks that nothing seems to.

    Raises:
        CannotKeep: something may.
    """
    for name in _roots(node):
        functions = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef)]
        if any(writes_to(f, name) for f in functions):
            raise CannotKeep(f"a function changes {name}")
        for load in (n for n in ast.walk(loop) if is_load(n) and n.id == name):
            if not _leaves_alone(file, load, node):
                raise CannotKeep(f"{name} is also used in line {load.lineno}, which may change it")


def _leaves_alone(file: SourceFile, load: ast.Name, node: ast.expr) -> bool:
    """Whether a place that reads a name cannot change the array."""
    parent = file.parents.get(load)
    if load is node or load in ast.walk(node) or isinstance(parent, ast.BinOp | ast.Compare):
        return True
    if isinstance(parent, ast.Attribute):
        return parent.attr in _ABOUT or isinstance(node, ast.Attribute)
    calls = [parent] if isinstance(parent, ast.Call) else file.enclosing(load, ast.Call)[:1]
    origins = Origins(file)
    return any(
        isinstance(c, ast.Call)
        and (is_pure(file, c) or origins.is_jitted(c) or called(file, c).startswith("jax."))
        for c in calls
    )


def _roots(node: ast.expr) -> set[str]:
    """The names of values, not of modules and functions, that an expression reads."""
    modules = {
        root.id for n in ast.walk(node) if isinstance(n, ast.Call) and (root := root_of(n.func))
    }
    return loaded([node]) - modules


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a tree that is written out; of anything else itself."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from _leaves(part)
        case _:
            yield node


def _is_plain(node: ast.expr) -> bool:
    is_number = isinstance(node, ast.Constant) and not isinstance(node.value, bool)
    return is_number or isinstance(node, ast.Name | ast.Attribute)


def _is_short(node: ast.expr) -> bool:
    """Whether a number is the same in bfloat16, which has 8 bits of it."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float):
        return False
    return math.frexp(node.value)[0] * 256 % 1 == 0


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return "constant"
    inner = node.args[0] if isinstance(node, ast.Call) else node
    own = getattr(inner, "attr", getattr(inner, "id", "array"))
    return f"{own}_on_device"
