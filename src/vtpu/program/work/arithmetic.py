"""What instructions compute beside matrix products: one operation for each element.

Conventions are those of XLA's `HloCostAnalysis` (openxla/xla `xla/service/hlo_cost_analysis.cc`):
transcendental functions are counted apart; a reduction applies its function once less than it has
elements; a random number is as dear as a transcendental; a scatter applies its function to each update.
It counts n log n comparisons for a sort of all n elements; here each sorted row is a sort of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves

#: Operations on vectors and transcendental functions.
Ops = tuple[int, int]

_NONE: Ops = (0, 0)
_TRANSCENDENTAL = {
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt", "sine", "sinh", "sqrt",
    "tan", "tanh",
}  # fmt: skip
_ELEMENTWISE = {
    "abs", "add", "and", "ceil", "clamp", "compare", "complex", "convert", "count-leading-zeros",
    "divide", "floor", "imag", "is-finite", "maximum", "minimum", "multiply", "negate", "not", "or",
    "popcnt", "real", "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even",
    "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
    "stochastic-convert", "subtract", "xor",
}  # fmt: skip


def ops_of(module: Module, instruction: Instruction) -> Ops:
    """What an instruction computes for its elements; of one that calls only what it applies itself."""
    opcode = instruction.opcode
    if opcode in _ELEMENTWISE:
        return elements(instruction.shape), 0
    if opcode in _TRANSCENDENTAL or opcode in ("rng", "rng-bit-generator"):
        return 0, elements(instruction.shape)
    applied = _APPLIED.get(opcode)
    return applied(module, instruction) if applied else _NONE


def elements(shape: Shape) -> int:
    """How many elements the arrays of a shape have."""
    return sum(prod(leaf.dims) for _, leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _reduce(module: Module, instruction: Instruction) -> Ops:
    taken = elements(_operand(module, instruction, 0))
    times = max(0, taken - elements(_first(instruction.shape)))
    return _applied(module, instruction, 0, times)


def _reduce_window(module: Module, instruction: Instruction) -> Ops:
    results = elements(_first(instruction.shape))
    window = prod(d.size for d in instruction.window)
    times = results * (window - 1)
    if (running := _whole_reduction(instruction)) is not None:
        times = results // running + running - 1
    return _applied(module, instruction, 0, times)


def _whole_reduction(instruction: Instruction) -> int | None:
    """The size of the one dimension that every window covers in full, if there is one.

    That is a reduction whose result is broadcast again, and is computed so.
    """
    reduced = [(i, d) for i, d in enumerate(instruction.window) if d.size != 1]
    if len(reduced) != 1 or not isinstance(instruction.shape, ArrayShape):
        return None
    place, window = reduced[0]
    size = instruction.shape.dims[place]
    covers = window.padding_low == window.padding_high == size - 1 and window.size == 2 * size - 1
    return size if covers and size > 1 else None


def _select_and_scatter(module: Module, instruction: Instruction) -> Ops:
    updates = elements(_operand(module, instruction, 1))
    window = prod(d.size for d in instruction.window)
    select = _applied(module, instruction, 0, updates * (window - 1))
    scatter = _applied(module, instruction, 1, updates)
    return select[0] + scatter[0], select[1] + scatter[1]


def _scatter(module: Module, instruction: Instruction) -> Ops:
    updates = _operand(module, instruction, len(instruction.operands) // 2 + 1)
    return _applied(module, instruction, 0, elements(updates))


def _inside(module: Module, instruction: Instruction) -> Ops:
    return _applied(module, instruction, 0, 1)


def _map(module: Module, instruction: Instruction) -> Ops:
    return _applied(module, instruction, 0, elements(instruction.shape))


def _sort(module: Module, instruction: Instruction) -> Ops:
    """N log2 n comparisons for each row of n: what a sort needs at least."""
    shape = _operand(module, instruction, 0)
    if not isinstance(shape, ArrayShape) or not shape.dims:
        return _NONE
    row = shape.dims[instruction.dimensions[0] if instruction.dimensions else -1]
    comparisons = prod(shape.dims) * max(0, row - 1).bit_length()
    return _applied(module, instruction, 0, comparisons)


def _all_reduce(module: Module, instruction: Instruction) -> Ops:
    """As XLA has it, each element of the result is one sum."""
    return _applied(module, instruction, 0, elements(instruction.shape))


def _fft(module: Module, instruction: Instruction) -> Ops:
    """5 n log2 n operations for a row of n (Cooley and Tukey); rows are the last dimension."""
    shape = _operand(module, instruction, 0)
    if not isinstance(shape, ArrayShape) or not shape.dims:
        return _NONE
    return 5 * prod(shape.dims) * max(0, shape.dims[-1] - 1).bit_length(), 0


def _triangular_solve(module: Module, instruction: Instruction) -> Ops:
    a, b = _operand(module, instruction, 0), _operand(module, instruction, 1)
    side = a.dims[-1] if isinstance(a, ArrayShape) and a.dims else 0
    return side * elements(b), 0


def _cholesky(module: Module, instruction: Instruction) -> Ops:
    a = _operand(module, instruction, 0)
    side = a.dims[-1] if isinstance(a, ArrayShape) and a.dims else 0
    return side * elements(a) // 3, 0


_APPLIED: dict[str, Callable[[Module, Instruction], Ops]] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "scatter": _scatter,
    "map": _map,
    "fusion": _inside,
    "call": _inside,
    "sort": _sort,
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "reduce-scatter": _all_reduce,
    "fft": _fft,
    "triangular-solve": _triangular_solve,
    "cholesky": _cholesky,
}


def _applied(module: Module, instruction: Instruction, number: int, times: int) -> Ops:
    """What the function number `number` of an instruction computes when applied `times` times."""
    if number >= len(instruction.called):
        return times, 0
    inner = module.computations[instruction.called[number]].instructions
    once = [ops_of(module, i) for i in inner]
    return times * sum(v for v, _ in once), times * sum(t for _, t in once)


def _operand(module: Module, instruction: Instruction, number: int) -> Shape:
    if number >= len(instruction.operands):
        return None
    return module.by_id[instruction.operands[number]].shape


def _first(shape: Shape) -> Shape:
    return shape[0] if isinstance(shape, tuple) and shape else shape
