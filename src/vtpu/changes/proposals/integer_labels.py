"""Labels kept as integers where one-hot rows pick an element of each row, or a row of a table."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.program.large_values import ValueKind
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.placing import without
from vtpu.changes.situation import Situation
from vtpu.changes.source.loops import scope_of
from vtpu.changes.source.names import bound, called, loads_of, spelled
from vtpu.changes.source.statements import stands_alone
from vtpu.changes.source.user_files import user_files
from vtpu.changes.source.wide_operations import axis_of
from vtpu.changes.source.wide_values import one_hot_call

KIND = "integer-labels"
_SIMPLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


class _Unclear(Exception):
    """Why one-hot rows are needed as they are, or may be."""


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each `one_hot` of a program that holds one-hot rows in HBM: their labels instead."""
    large = [v for v in situation.program.report.large_values if v.kind is ValueKind.ONE_HOT]
    if not large:
        yield NotApplicable(kind=KIND, reason="no large one-hot rows are alive at the peak")
        return
    rows = [(file, node) for file in user_files(situation) for node in _one_hots(file)]
    if not rows:
        reason = "no call of `jax.nn.one_hot` in the program's own files makes them"
        yield NotApplicable(kind=KIND, reason=reason)
    for file, node in rows:
        place = f"{file.name}:{node.lineno}"
        try:
            edits = tuple(_edits(file, node))
        except _Unclear as why:
            yield NotApplicable(kind=KIND, reason=f"one-hot rows of {place}: {why}")
            continue
        yield Change(
            kind=KIND,
            title=f"pick by integer labels, not by the one-hot rows of {place}",
            numerics=Numerics.TOLERANCE,
            edits=edits,
            group=f"{KIND} {place}",
            caution="a label that is no class picks nothing from one-hot rows, and something here",
            expected_bytes=sum(v.bytes for v in large) / len(rows),
        )


def _one_hots(file: SourceFile) -> Iterator[ast.expr]:
    """Calls of `one_hot`, with what hands their result on unchanged."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and one_hot_call(file, node) is not None:
            parent = file.parents[node]
            is_inside = isinstance(parent, ast.Call) and one_hot_call(file, parent) is not None
            if not is_inside:
                yield node


def _edits(file: SourceFile, node: ast.expr) -> Iterator[Edit]:
    """The edits that do without one-hot rows.

    Raises:
        _Unclear: they are used otherwise.
    """
    call = one_hot_call(file, node)
    assert call is not None
    if axis_of(call, 3) not in (None, -1) or not call.args:
        raise _Unclear("their classes are not along the last axis")
    labels = file.source(call.args[0])
    labels = labels if isinstance(call.args[0], _SIMPLE) else f"({labels})"
    statement = file.parents[node]
    uses: list[ast.expr] = [node]
    if isinstance(statement, ast.Assign):
        uses = [*_uses(file, statement)]
        yield without(file, statement)
    for use in uses:
        yield from _picked(file, use, labels)


def _uses(file: SourceFile, statement: ast.Assign) -> Iterator[ast.expr]:
    """Where the rows that a statement assigns to a name are used."""
    name = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(name, ast.Name):
        raise _Unclear("they are assigned to more than a name")
    scope = scope_of(file, statement)
    others = [s for s in ast.walk(scope) if isinstance(s, ast.stmt) and s not in (scope, statement)]
    if name.id in bound([s for s in others if not getattr(s, "body", None)]):
        raise _Unclear(f"{name.id} is assigned twice")
    if not stands_alone(file, statement):
        raise _Unclear("their statement shares its line with another one")
    found = loads_of(name.id, [scope])
    if not found:
        raise _Unclear(f"{name.id} is not used in its function")
    yield from found


def _picked(file: SourceFile, use: ast.expr, labels: str) -> Iterator[Edit]:
    """What stands in for a product with one-hot rows."""
    product = file.parents[use]
    if not isinstance(product, ast.BinOp):
        raise _Unclear(f"line {use.lineno} uses them otherwise than in a product")
    other = product.right if product.left is use else product.left
    text = file.source(other)
    text = text if isinstance(other, _SIMPLE) else f"({text})"
    if isinstance(product.op, ast.MatMult) and product.left is use:
        new = f"{text}[{labels}]"
    elif isinstance(product.op, ast.Mult) and _is_summed(file, product):
        spelling, imports = spelled(file, "jax.numpy.take_along_axis")
        new = f"{spelling}({file.source(other)}, {labels}[..., None], axis=-1)"
        yield from imports
    else:
        raise _Unclear(f"line {use.lineno} does not sum their product over the classes")
    begin, end = file.span(product)
    yield Replace(file=file.name, begin=begin, end=end, text=new)


def _is_summed(file: SourceFile, product: ast.expr) -> bool:
    """Whether a product is summed over everything or over its last axis: then one term of each row is left."""
    parent = file.parents[product]
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.USub) and _is_summed(file, parent)
    if isinstance(parent, ast.Attribute):
        call, place = file.parents[parent], 0
        is_sum = parent.attr == "sum" and isinstance(call, ast.Call) and call.func is parent
    else:
        call, place = parent, 1
        is_sum = called(file, parent) == "jax.numpy.sum"
    if not is_sum or not isinstance(call, ast.Call):
        return False
    names = {k.arg for k in call.keywords}
    return names <= {"axis"} and axis_of(call, place) in (None, -1)


PROPOSAL = Proposal(
    kind=KIND,
    what="`jnp.take_along_axis(values, labels[..., None], axis=-1)` instead of a product with one-hot rows that is "
    "summed, and `table[labels]` instead of `one_hot @ table`.",
    applies="One-hot rows are alive at the peak, and every use of those that a call of `jax.nn.one_hot` makes is "
    "such a product.",
    numerics="Equal within tolerance; labels that are no class count as nothing in one-hot rows only.",
    propose=propose,
)
