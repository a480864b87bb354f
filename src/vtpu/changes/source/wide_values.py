"""Follows an array with a wide last axis, such as logits, from the product that makes it to what is left of it.

A loss over a vocabulary is this: a product gives each row (a token) a value for every word; some
operations work on each row by itself; in the end one number of each row is left, and sums of them. What
stands between can be computed for some rows after the others. To know that, every use of the product's
result in its function is followed, and of what is made of it; an unknown use ends it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.loops import scope_of, statement_of
from vtpu.changes.source.names import bound, called, definition_of, is_load, loads_of
from vtpu.changes.source.products import Product
from vtpu.changes.source.statements import block_of
from vtpu.changes.source.wide_operations import Use, Used, used_by

_IDENTITIES = ("jax.lax.optimization_barrier", "jax.lax.stop_gradient")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class UsedWhole(Exception):
    """Where something needs all of a wide array at once. `lines` are those of what was followed up to there."""

    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class End:
    """An expression that takes one or a few numbers of each row. `use` is ROWS or TOTAL."""

    node: ast.Call | ast.Subscript
    use: Use
    name: str


@dataclass(kw_only=True, eq=False)
class WideValues:
    """What is made of a product, in one block of statements.

    `statements` assign what is as wide, in order. `ends` are where it ends, `choices` where some of the rows are taken
    from then on. `row_inputs` have the same rows and go in: labels. `names` are the functions on the way.
    `ends_where_chosen`: what is made of some of the rows is not followed.
    """

    file: SourceFile
    product: Product
    block: list[ast.stmt]
    ends_where_chosen: bool = False
    statements: list[ast.stmt] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    choices: list[Used] = field(default_factory=list)
    row_inputs: list[ast.expr] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    seen: set[ast.AST] = field(default_factory=set, repr=False)
    asked: list[ast.AST] = field(default_factory=list, repr=False)

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of what was followed."""
        nodes = [
            self.product.node,
            *self.statements,
            *(n for n in self.seen if isinstance(n, ast.expr)),
        ]
        return tuple(
            {n for node in nodes for n in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        )


def follow(file: SourceFile, product: Product, *, ends_where_chosen: bool = False) -> WideValues:
    """Follows the result of a product, on request only up to where some of its rows are taken.

    Raises:
        UsedWhole: something needs it whole, or is not understood.
    """
    statement = statement_of(file, product.node)
    assert statement is not None
    wide = WideValues(
        file=file,
        product=product,
        block=block_of(file, statement),
        ends_where_chosen=ends_where_chosen,
    )
    wide.row_inputs.append(product.rows)
    try:
        _follow(wide, product.node)
        _check_asked(wide)
    except UsedWhole as why:
        why.lines = wide.lines
        raise
    wide.statements.sort(key=lambda s: s.lineno)
    return wide


def one_hot_call(file: SourceFile, node: ast.expr) -> ast.Call | None:
    """The `jax.nn.one_hot(…)` that an expression is, perhaps handed on by functions that do nothing to it."""
    while isinstance(node, ast.Call):
        if called(file, node) == "jax.nn.one_hot":
            return node
        if not _is_identity(file, node):
            return None
        node = node.args[0]
    return None


def _is_identity(file: SourceFile, call: ast.Call) -> bool:
    """Whether a call gives its one argument back: `optimization_barrier(x)`, or a function that returns it."""
    name = called(file, call)
    if len(call.args) != 1 or call.keywords:
        return False
    if name in _IDENTITIES:
        return True
    function = definition_of(file, name)
    if function is None or len(function.body) != 1 or not isinstance(function.body[0], ast.Return):
        return False
    value, parameters = function.body[0].value, function.args.args
    while (
        isinstance(value, ast.Call) and called(file, value) in _IDENTITIES and len(value.args) == 1
    ):
        value = value.args[0]
    return isinstance(value, ast.Name) and [a.arg for a in parameters] == [value.id]


def _check_asked(wide: WideValues) -> None:
    """The shape of what is in chunks may be asked for in the chunk only."""
    for node in wide.asked:
        if statement_of(wide.file, node) not in wide.statements:
            raise UsedWhole(f"line {_line(node)} asks for its shape")


def _follow(wide: WideValues, node: ast.expr) -> None:
    if node in wide.seen:
        return
    wide.seen.add(node)
    parent = wide.file.parents[node]
    if isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is node:
        _follow_assigned(wide, parent)
        return
    used = used_by(wide.file, node)
    wide.names.add(used.name)
    if used.use is Use.WHOLE:
        raise UsedWhole(f"line {_line(used.node)} uses it whole")
    if used.use is Use.ABOUT:
        wide.asked.append(used.node)
    elif used.use in (Use.ROWS, Use.TOTAL):
        assert isinstance(used.node, ast.Call | ast.Subscript)
        wide.ends.append(End(node=used.node, use=used.use, name=used.name))
        if used.labels is not None:
            _take_in(wide, used.labels, is_label=True)
    else:
        _follow_through(wide, used, node)


def _follow_through(wide: WideValues, used: Used, node: ast.expr) -> None:
    """Follows what an operation makes that is as wide."""
    assert isinstance(used.node, ast.expr)
    for other in _operands(used.node):
        if other is not node:
            _take_in(wide, other)
    if used.use is Use.CHOSEN:
        wide.choices.append(used)
    if used.use is not Use.CHOSEN or not wide.ends_where_chosen:
        _follow(wide, used.node)


def _follow_assigned(wide: WideValues, statement: ast.Assign | ast.AnnAssign) -> None:
    """Follows a name to where it is bound again."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or statement not in wide.block:
        raise UsedWhole(f"line {statement.lineno} assigns it in a way that is not followed")
    name = targets[0].id
    wide.statements.append(statement)
    inside = {n for s in wide.block for n in ast.walk(s)}
    scope = scope_of(wide.file, statement)
    if any(is_load(n) and n.id == name and n not in inside for n in ast.walk(scope)):
        raise UsedWhole(f"{name} is used outside of its block")
    for one in meant_in(wide.block, statement, name):
        for load in loads_of(name, [one]):
            _follow(wide, load)
        if _is_updated(one, name):
            wide.statements.append(one)
        elif name in bound([one]) and not isinstance(one, ast.Assign | ast.AnnAssign):
            raise UsedWhole(f"line {one.lineno} may assign {name} again")


def meant_in(block: list[ast.stmt], statement: ast.stmt, name: str) -> Iterator[ast.stmt]:
    """The statements behind one that assigns a name, to where the name is bound anew."""
    for one in block[block.index(statement) + 1 :]:
        yield one
        if name in bound([one]) and not _is_updated(one, name):
            return


def _is_updated(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is `name += …`."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, _ARITHMETIC):
        return False
    return isinstance(statement.target, ast.Name) and statement.target.id == name


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Call):
        yield from (*node.args, *(k.value for k in node.keywords))


def _take_in(wide: WideValues, other: ast.expr, *, is_label: bool = False) -> None:
    """Notes what goes in beside the product and has its rows: labels, and one-hot labels, which are as wide."""
    hot = one_hot_call(wide.file, other)
    statement = _one_hot_above(wide, other) if isinstance(other, ast.Name) else None
    if hot is not None:
        wide.row_inputs.append(hot.args[0])
    elif statement is not None:
        hot = one_hot_call(wide.file, statement.value)
        if statement not in wide.statements and hot is not None:
            wide.row_inputs.append(hot.args[0])
            _follow_assigned(wide, statement)
    elif (rows := _with_axis_less(wide.file, other)) is not None or is_label:
        wide.row_inputs.append(rows or other)


def _one_hot_above(wide: WideValues, name: ast.Name) -> ast.Assign | None:
    """The statement that assigns one-hot labels to a name, above where it is used."""
    above = [s for s in wide.block if s.lineno < name.lineno and name.id in bound([s])]
    last = above[-1] if above else None
    is_hot = isinstance(last, ast.Assign) and one_hot_call(wide.file, last.value) is not None
    return last if is_hot and isinstance(last, ast.Assign) else None


def _with_axis_less(file: SourceFile, node: ast.expr) -> ast.expr | None:
    """The labels in `labels[..., None]`: what has rows where a wide array has them."""
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        is_new = any(isinstance(p, ast.Constant) and p.value is None for p in parts)
        return node.value if is_new else None
    is_expanded = called(file, node) == "jax.numpy.expand_dims" and isinstance(node, ast.Call)
    return node.args[0] if is_expanded and isinstance(node, ast.Call) else None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
