"""Attention that is written out: the product of queries and keys, softmax, the product with values.

Found by what is computed, not by names: a product goes through operations element by element and one softmax
over its last dimension into another product. Each row of the scores then depends on its query alone, and
blocks of queries can be computed one after the other. What is not understood is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import bound, loaded, qualified
from vtpu.changes.source.numbers import is_number

_SOFTMAX = ("jax.nn.softmax", "flax.linen.softmax", "flax.nnx.softmax")
_EINSUM, _MATMUL, _WHERE = "jax.numpy.einsum", "jax.numpy.matmul", "jax.numpy.where"
_ELEMENTWISE = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_ROWS = -2  # of scores: the queries

Subscripts = tuple[str, str, str]


class NotAttention(Exception):
    """Code that is no attention of the kinds that are known, and why."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attention:
    """Attention in a block of statements.

    `between` are the assignments that lead from the product of queries and keys to `result`, the product with
    values, which stands in `last`. `queries` is the operand that has the queries, along dimension
    `query_axis`; the result has them along `out_axis`. `others` are beside the scores, as masks are, and may
    have a row for each query, in their last but one dimension.
    """

    file: SourceFile
    between: tuple[ast.stmt, ...]
    last: ast.stmt
    result: ast.expr
    queries: ast.expr
    others: tuple[ast.expr, ...]
    query_axis: int
    out_axis: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chain:
    """How scores come from the product of queries and keys: through which statements, beside what."""

    product: ast.expr
    statements: tuple[int, ...] = ()
    others: tuple[ast.expr, ...] = ()
    softmaxes: int = 0


def find_attention(file: SourceFile, block: Sequence[ast.stmt]) -> Attention:
    """The attention in a block of statements.

    Raises:
        NotAttention: there is none, or not just one, or it does more than is known.
    """
    found = [one for number in range(len(block)) for one in _ending_in(file, block, number)]
    if len(found) != 1:
        raise NotAttention(
            "it has more than one attention"
            if found
            else "no product of a softmax of a product was found in it"
        )
    _check(found[0], block)
    return found[0]


def _ending_in(file: SourceFile, block: Sequence[ast.stmt], number: int) -> Iterator[Attention]:
    """The attentions whose product with values is in a statement."""
    last = block[number]
    if not isinstance(last, ast.Assign | ast.Return | ast.AugAssign | ast.AnnAssign):
        return
    for result in (n for n in ast.walk(last) if isinstance(n, ast.expr)):
        for scores, out_axis in _scores_of(file, result):
            chain = _Tracer(file, block).trace(scores, number)
            if chain is None or chain.softmaxes != 1:
                continue
            queries, query_axis = _queries(file, chain.product)
            yield Attention(
                file=file,
                between=tuple(block[n] for n in sorted(chain.statements)),
                last=last,
                result=result,
                queries=queries,
                others=tuple(o for o in chain.others if not is_number(file, o)),
                query_axis=query_axis,
                out_axis=out_axis,
            )


@dataclass(frozen=True, slots=True)
class _Tracer:
    """Follows scores backwards through a block."""

    file: SourceFile
    block: Sequence[ast.stmt]

    def trace(self, node: ast.expr, at: int) -> _Chain | None:
        """How an expression in statement `at` comes from a product; None: it does not, or not in a way
        that leaves each row of the product to itself.
        """
        if _operands(self.file, node) is not None:
            return _Chain(product=node)
        if isinstance(node, ast.Name):
            return self._of_name(node.id, at)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ELEMENTWISE):
            return self._of_one((node.left, node.right), at)
        return self._of_call(node, at) if isinstance(node, ast.Call) else None

    def _of_name(self, name: str, at: int) -> _Chain | None:
        for number in range(at - 1, -1, -1):
            statement = self.block[number]
            if name not in bound([statement]):
                continue
            is_plain = isinstance(statement, ast.Assign) and [
                getattr(t, "id", "") for t in statement.targets
            ] == [name]
            chain = self.trace(statement.value, number) if is_plain and isinstance(statement, ast.Assign) else None  # fmt: skip
            return replace(chain, statements=(number, *chain.statements)) if chain else None
        return None

    def _of_one(
        self, operands: Sequence[ast.expr], at: int, beside: Sequence[ast.expr] = ()
    ) -> _Chain | None:
        """Of operands the one that is the scores; the others are beside them."""
        chains = [self.trace(o, at) for o in operands]
        found = [c for c in chains if c]
        if len(found) != 1:
            return None
        others = [o for o, c in zip(operands, chains, strict=True) if c is None]
        return replace(found[0], others=(*found[0].others, *others, *beside))

    def _of_call(self, node: ast.Call, at: int) -> _Chain | None:
        name = qualified(self.file, node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return self.trace(node.func.value, at)
        if name == _WHERE and len(node.args) == 3 and not node.keywords:
            return self._of_one(node.args[1:], at, node.args[:1])
        if name in _SOFTMAX and _is_over_last(node):
            chain = self.trace(node.args[0], at)
            return replace(chain, softmaxes=chain.softmaxes + 1) if chain else None
        return None


def _is_over_last(node: ast.Call) -> bool:
    """Whether a softmax is over the last dimension, and nothing else is asked of it."""
    axes = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "axis")]
    has_others = any(k.arg != "axis" for k in node.keywords)
    return bool(node.args) and not has_others and all(ast.unparse(a) == "-1" for a in axes)


def _operands(
    file: SourceFile, node: ast.expr
) -> tuple[ast.expr, ast.expr, Subscripts | None] | None:
    """The operands of a product, and its subscripts where it is an einsum; None of other expressions."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right, None
    name = qualified(file, node.func) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    if name == _MATMUL and len(node.args) == 2:
        return node.args[0], node.args[1], None
    subscripts = _subscripts(node.args[0]) if name == _EINSUM and len(node.args) == 3 else None
    return (node.args[1], node.args[2], subscripts) if subscripts else None


def _subscripts(node: ast.expr) -> Subscripts | None:
    """`bqhd`, `bkhd` and `bhqk` of `bqhd,bkhd->bhqk`; None of other forms, and of diagonals."""
    text = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(text, str) or "->" not in text or "." in text:
        return None
    operands, _, out = text.replace(" ", "").partition("->")
    parts = operands.split(",")
    if len(parts) != 2 or any(len(set(p)) != len(p) for p in (*parts, out)):
        return None
    return parts[0], parts[1], out


def _queries(file: SourceFile, product: ast.expr) -> tuple[ast.expr, int]:
    """The operand of the first product that has the queries, and their dimension in it."""
    operands = _operands(file, product)
    assert operands is not None
    left, right, subscripts = operands
    if subscripts is None:
        return left, _ROWS
    first, second, out = subscripts
    if len(out) < 2 or (out[_ROWS] in first) == (out[_ROWS] in second):
        raise NotAttention("which operand of its first product has the queries is not clear")
    row = out[_ROWS]
    return (left, first.index(row)) if row in first else (right, second.index(row))


def _scores_of(file: SourceFile, node: ast.expr) -> Iterator[tuple[ast.expr, int]]:
    """The operands of a product that may be scores, and the dimension of the result with the queries."""
    operands = _operands(file, node)
    if operands is None:
        return
    left, right, subscripts = operands
    if subscripts is None:
        yield left, _ROWS
        return
    first, second, out = subscripts
    for scores, its, values in ((left, first, second), (right, second, first)):
        if len(its) >= 2 and its[_ROWS] in out and its[_ROWS] not in values and its[-1] not in out:
            yield scores, out.index(its[_ROWS])


def _check(attention: Attention, block: Sequence[ast.stmt]) -> None:
    """Makes sure that its statements can stand together before the last one."""
    between = attention.between
    names = bound(between)
    inside = {id(n) for n in ast.walk(attention.result)}
    outside = [n for n in ast.walk(attention.last) if id(n) not in inside]
    end = block.index(attention.last)
    first = block.index(between[0]) if between else end
    rest = [s for s in block[first:end] if s not in between]
    used = (loaded(block[end + 1 :]) | loaded(rest) | _names(outside)) & names
    if used:
        raise NotAttention(f"its scores are used elsewhere too: {', '.join(sorted(used))}")
    late = {n for s in between for n in loaded([s]) & bound(_behind(s, block, rest))}
    if late:
        raise NotAttention(f"{', '.join(sorted(late))} changes in between")
    if any(loaded([other]) & names for other in attention.others):
        raise NotAttention("what is beside its scores comes from them")


def _behind(
    statement: ast.stmt, block: Sequence[ast.stmt], others: Iterable[ast.stmt]
) -> list[ast.stmt]:
    """Those of other statements that stand behind one."""
    return [s for s in others if block.index(s) > block.index(statement)]


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
