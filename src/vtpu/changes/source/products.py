"""Products of rows with a matrix in the user's source: `hidden @ head` and its other spellings."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import called

_TWO_FACTORS = ("jax.numpy.matmul", "jax.numpy.dot", "jax.lax.dot")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """A product. `rows` is the factor whose last axis is summed over and whose others stay in front, `matrix` the
    other one. `keeps_rank`: it is spelled so that `rows` may have other axes in front.
    """

    node: ast.expr
    rows: ast.expr
    matrix: ast.expr
    keeps_rank: bool


def product_of(file: SourceFile, node: ast.AST) -> Product | None:
    """The product that an expression is; None for any other."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node=node, rows=node.left, matrix=node.right, keeps_rank=True)
    if not isinstance(node, ast.Call):
        return None
    name = called(file, node)
    if name in _TWO_FACTORS and len(node.args) == 2:
        return Product(node=node, rows=node.args[0], matrix=node.args[1], keeps_rank=True)
    return _einsum(node) if name == "jax.numpy.einsum" else None


def _einsum(node: ast.Call) -> Product | None:
    """`einsum("btd,vd->btv", …)`: the axes of one factor stay in front, but for the last."""
    spec = node.args[0] if node.args else None
    if len(node.args) != 3 or not isinstance(spec, ast.Constant) or not isinstance(spec.value, str):
        return None
    factors, arrow, result = spec.value.replace(" ", "").replace("...", "#").partition("->")
    first, _, second = factors.partition(",")
    if not arrow or not result:
        return None
    for rows, matrix, at in ((first, second, 1), (second, first, 2)):
        is_matrix = len(matrix) == 2 and set(matrix) == {rows[-1:], result[-1]}
        if is_matrix and rows[:-1] == result[:-1] and result[-1] not in rows:
            return Product(
                node=node, rows=node.args[at], matrix=node.args[3 - at], keeps_rank=rows[0] == "#"
            )
    return None
