"""The rows that are used of a product with a wide matrix are taken before it, not behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Replace, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.loops import statement_of
from vtpu.changes.source.names import bound, loaded
from vtpu.changes.source.wide_operations import Used
from vtpu.changes.source.wide_products import WideProduct, wide_products
from vtpu.changes.source.wide_values import WideValues

KIND = "select-rows"
_NEED_NO_BRACKETS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each large product of which some rows are used: those rows go into it."""
    products = wide_products(situation, ends_where_chosen=True)
    chosen = [p for p in products if p.values and p.values.choices]
    if not chosen:
        reason = "no large product is followed to where some of its rows are taken"
        yield NotApplicable(kind=KIND, reason=reason)
    for product in chosen:
        yield _change(product)


def _change(product: WideProduct) -> Change | NotApplicable:
    assert product.values is not None
    if why_not := _why_not(product.values):
        return NotApplicable(kind=KIND, reason=f"rows of the product in {product.place}: {why_not}")
    index = _index(product.values, product.values.choices[0])
    return Change(
        kind=KIND,
        title=f"take [{index}] before the product in {product.place}",
        numerics=Numerics.TOLERANCE,
        edits=tuple(_edits(product.values, index)),
        group=f"{KIND} {product.place}",
        expected_bytes=product.bytes,
    )


def _why_not(values: WideValues) -> str:
    """Why rows cannot be taken before; empty where they can."""
    indices = {_index(values, choice) for choice in values.choices}
    if values.ends:
        return "something of every row is used too"
    if len(indices) != 1:
        return f"several selections of rows are used: {', '.join(sorted(indices))}"
    if len(values.row_inputs) > 1 or not values.product.keeps_rank:
        return "other arrays with as many rows go in"
    first = statement_of(values.file, values.product.node)
    assert first is not None
    behind = values.block[values.block.index(first) :]
    names = {n for c in values.choices if c.index is not None for n in loaded([c.index])}
    if late := sorted(names & bound(behind)):
        return f"{', '.join(late)} is assigned behind it"
    return ""


def _index(values: WideValues, choice: Used) -> str:
    return values.file.source(choice.index) if choice.index is not None else ""


def _edits(values: WideValues, index: str) -> Iterator[Edit]:
    file = values.file
    begin, end = file.span(values.product.rows)
    before, after = _brackets(values.product.rows)
    yield Wrap(file=file.name, begin=begin, end=end, before=before, after=f"{after}[{index}]")
    for choice in values.choices:
        yield from _without(file, choice.node)


def _without(file: SourceFile, choice: ast.AST) -> Iterator[Edit]:
    """What leaves of `x[last]`, or of `jnp.take(x, last, axis=0)`, only `x`."""
    assert isinstance(choice, ast.Subscript | ast.Call)
    whole = choice.value if isinstance(choice, ast.Subscript) else choice.args[0]
    (outer_begin, outer_end), (begin, end) = file.span(choice), file.span(whole)
    if isinstance(choice, ast.Subscript):
        bracket = file.text.index("[", end)  # there may be a `)` of the value's own before
        yield Replace(file=file.name, begin=bracket, end=outer_end, text="")
        return
    before, after = _brackets(whole)
    yield Replace(file=file.name, begin=outer_begin, end=begin, text=before)
    yield Replace(file=file.name, begin=end, end=outer_end, text=after)


def _brackets(node: ast.expr) -> tuple[str, str]:
    return ("", "") if isinstance(node, _NEED_NO_BRACKETS) else ("(", ")")


PROPOSAL = Proposal(
    kind=KIND,
    what="Of a product with a vocabulary only the rows that are used: `hidden[last] @ head` instead of "
    "`(hidden @ head)[last]`.",
    applies="In one function, a large product leads through operations on single rows to one selection of its "
    "rows, by an index that is known before it, and nothing else uses what is between.",
    numerics="Equal within tolerance: the same rows, in a product of another size.",
    propose=propose,
)
