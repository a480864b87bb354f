"""The matrix product in a `dot` or a `convolution`.

The compiler for TPUs writes products as convolutions: dimensions of a batch, and further dimensions of
the left or right side, become spatial dimensions whose window, stride, padding and dilation pair the
elements. Only pairs of real elements count, not padding and not the holes of a dilation, as in XLA's
`HloCostAnalysis::GetConvolutionFlops` (openxla/xla `xla/service/hlo_cost_analysis.cc`).
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod

from vtpu.program.element_types import ElementType
from vtpu.program.modules import Instruction, Module
from vtpu.program.operations import Precision, WindowDimension
from vtpu.program.shapes import ArrayShape
from vtpu.program.work.amounts import MatrixProduct

#: Batch, m, n and k; and the multiply-adds.
_Sizes = tuple[tuple[int, int, int, int], int]

_PASSES = {Precision.DEFAULT: 1, Precision.HIGH: 3, Precision.HIGHEST: 6}


def product_of(module: Module, instruction: Instruction) -> MatrixProduct | None:
    """The product that a `dot` or a `convolution` is; None for other instructions."""
    if instruction.dot is None and instruction.convolution is None:
        return None
    sides = [module.by_id[o].shape for o in instruction.operands[:2]]
    result = instruction.shape
    if len(sides) < 2 or not isinstance(result, ArrayShape):
        return None
    lhs, rhs = sides
    if not isinstance(lhs, ArrayShape) or not isinstance(rhs, ArrayShape):
        return None
    found = (_dot if instruction.opcode == "dot" else _convolution)(instruction, lhs, rhs, result)
    if found is None:
        return None
    sizes, multiply_adds = found
    batch, m, n, k = sizes
    is_wide = ElementType.F32 in (lhs.element_type, rhs.element_type)
    return MatrixProduct(
        batch=batch,
        m=m,
        n=n,
        k=k,
        multiply_adds=multiply_adds,
        lhs=lhs.element_type,
        rhs=rhs.element_type,
        result=result.element_type,
        passes=_PASSES[instruction.precision] if is_wide else 1,
    )


def _dot(
    instruction: Instruction, lhs: ArrayShape, rhs: ArrayShape, _result: ArrayShape
) -> _Sizes | None:
    roles = instruction.dot
    if roles is None:
        return None
    k = prod(lhs.dims[d] for d in roles.lhs_contracting)
    batch = prod(lhs.dims[d] for d in roles.lhs_batch)
    m = prod(s for d, s in enumerate(lhs.dims) if d not in roles.lhs_contracting + roles.lhs_batch)
    n = prod(s for d, s in enumerate(rhs.dims) if d not in roles.rhs_contracting + roles.rhs_batch)
    return (batch, m, n, k), batch * m * n * k


def _convolution(
    instruction: Instruction, lhs: ArrayShape, rhs: ArrayShape, result: ArrayShape
) -> _Sizes | None:
    roles = instruction.convolution
    if roles is None:
        return None
    groups = roles.feature_groups * roles.batch_groups
    m = lhs.dims[roles.input_batch] // roles.batch_groups
    n = result.dims[roles.output_feature] // groups
    k = lhs.dims[roles.input_feature] // roles.feature_groups
    batch, multiply_adds = groups, groups * m * n * k
    for place, window in enumerate(instruction.window):
        size = lhs.dims[roles.input_spatial[place]]
        kernel = rhs.dims[roles.kernel_spatial[place]]
        places = result.dims[roles.output_spatial[place]]
        pairs = _pairs(size, kernel, places, window)
        multiply_adds *= pairs
        if pairs == size == kernel == places:  # each element meets one: a dimension of the batch
            batch *= pairs
        elif size == 1 and pairs == kernel == places:  # each of the right side gives one result
            n *= places
        else:
            m *= places
            k *= -(-pairs // places) if places else 0
    return (batch, m, n, k), multiply_adds


@lru_cache(maxsize=4096)
def _pairs(size: int, kernel: int, places: int, window: WindowDimension) -> int:
    """How many pairs of a place of the window and an element of the kernel meet a real element."""
    return sum(
        _meetings(window.padding_low - element * window.window_dilation, size, places, window)
        for element in range(kernel)
    )


def _meetings(offset: int, size: int, places: int, window: WindowDimension) -> int:
    """How many of the window's places p have p · stride - offset on an element.

    Elements stand at 0, dilation, 2 · dilation, … up to `size` of them.
    """
    stride, dilation = window.stride, window.base_dilation
    common = gcd(stride, dilation)
    if offset % common:
        return 0
    first = max(0, -(-offset // stride))
    last = min(places - 1, (offset + (size - 1) * dilation) // stride)
    period = dilation // common
    solution = offset // common * pow(stride // common, -1, period) if period > 1 else 0
    first += (solution - first) % period
    return max(0, (last - first) // period + 1)
