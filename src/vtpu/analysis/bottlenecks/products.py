"""What matrix products leave unused: of the matrix units by their shapes and precision, of HBM by their types.

All gains are of the cost model (`clock/operations`): a product takes what the matrix units or HBM need,
whichever is more. Of one that takes longer than both, because of something that only the compiler's own
cycles know, no gain is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vtpu.analysis.time.rows import OperationRow
from vtpu.clock.operations import filled, filled_by
from vtpu.clock.program_time import Source
from vtpu.clock.resources import Resource
from vtpu.program.element_types import ElementType
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.work import MatrixProduct, work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductUse:
    """An operation with matrix products, and what it would gain, seconds of one execution of the program.

    `by_shape_s`: if the matrix units were full; `by_precision_s`: if they went over it once; `by_type_s`: if
    what it reads and writes as float32 in HBM were bfloat16. `fills`: how full the matrix units are.
    """

    row: OperationRow
    products: tuple[MatrixProduct, ...]
    fills: float
    by_shape_s: float
    by_precision_s: float
    by_type_s: float

    @property
    def largest(self) -> MatrixProduct:
        """The product with most FLOPs."""
        return max(self.products, key=lambda p: p.flops)

    @property
    def is_bound_by_hbm(self) -> bool:
        """Whether HBM decides how long it takes."""
        return self.row.bound is Resource.HBM


def product_uses(module: Module, rows: Iterable[OperationRow], edge: int) -> Iterator[ProductUse]:
    """The operations with matrix products that have a model. `edge` is that of the matrix units."""
    for row in rows:
        products = work_of(module, row.instruction).products
        if products and row.time.time is not None and row.seconds:
            yield _use(module, row, products, edge)


def narrow_dimension(product: MatrixProduct, edge: int) -> int:
    """The dimension of a product that leaves most of the matrix units unused."""
    kept = max((product.n, product.m), key=lambda n: filled_by(n, edge))
    return min((product.k, kept), key=lambda n: filled_by(n, edge))


def few_rows(product: MatrixProduct) -> int:
    """The rows of the smaller side of a product with weights: of a batch, or of one token for each of it."""
    return min(product.m, product.n)


def _use(
    module: Module, row: OperationRow, products: tuple[MatrixProduct, ...], edge: int
) -> ProductUse:
    work = sum(p.flops * p.passes for p in products)
    spent = sum(p.flops * p.passes / filled(p, edge) for p in products)
    once = sum(p.flops / filled(p, edge) for p in products)
    wide, moved = _wide_bytes(module, row.instruction), max(1, row.hbm_bytes or 0) / row.time.runs
    return ProductUse(
        row=row,
        products=products,
        fills=work / spent if spent else 1.0,
        by_shape_s=_gain(row, Resource.MXU, work / spent if spent else 1.0),
        by_precision_s=_gain(row, Resource.MXU, once / spent if spent else 1.0),
        by_type_s=_gain(row, Resource.HBM, max(0.5, 1 - wide / moved / 2)),
    )


def _gain(row: OperationRow, resource: Resource, factor: float) -> float:
    """What a step gains if an operation needs a resource only for `factor` of the time."""
    busy, time = row.time.busy, row.time.time
    if time is None or row.time.source is not Source.WORK:
        return 0.0
    needs = {r: s for r, s in busy.items() if r in (Resource.MXU, Resource.HBM)}
    now = max(needs.values(), default=0.0)
    then = max((s * (factor if r is resource else 1.0) for r, s in needs.items()), default=0.0)
    return (now - then) / time.seconds * row.seconds


def _wide_bytes(module: Module, instruction: Instruction) -> int:
    """Bytes of float32 arrays in HBM that an operation has as operands and results."""
    shapes: Sequence[Shape] = [module.by_id[o].shape for o in instruction.operands]
    return sum(
        s.padded_bytes
        for shape in (*shapes, instruction.shape)
        for _, s in leaves(shape)
        if isinstance(s, ArrayShape)
        and s.element_type is ElementType.F32
        and s.layout.memory_space == MemorySpace.HBM
    )
