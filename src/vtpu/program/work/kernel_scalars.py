"""Scalars of a kernel at every place of its grid at once.

A scalar is an array that broadcasts to the grid: of size 1 along the dimensions that it does not depend
on. None is a scalar that only the chip knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vtpu.program.kernels import Block, Operation, Value

Scalars = np.ndarray
Known = dict[int, Scalars | None]

_PREDICATES: tuple[Callable[[Scalars, Scalars], Scalars], ...] = (  # of `arith.cmpi`, in its order
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
_SAME = {
    "arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui", "arith.trunci",
    "tpu.assume_multiple",
}  # fmt: skip


def _divided(a: Scalars, b: Scalars) -> Scalars:
    """Towards zero, as hardware does it; by zero is zero."""
    divisor = np.where(b == 0, 1, b)
    return np.sign(a) * np.sign(divisor) * (np.abs(a) // np.abs(divisor))


def _remainder(a: Scalars, b: Scalars) -> Scalars:
    return a - b * _divided(a, b)


def _floored(a: Scalars, b: Scalars) -> Scalars:
    return a // np.where(b == 0, 1, b)


def _ceiled(a: Scalars, b: Scalars) -> Scalars:
    return -(-a // np.where(b == 0, 1, b))


_BINARY: dict[str, Callable[[Scalars, Scalars], Scalars]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _divided,
    "arith.divui": _divided,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.floordivsi": _floored,
    "arith.ceildivsi": _ceiled,
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.maxui": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}


def places(grid: Sequence[int]) -> list[Scalars]:
    """The places of a grid, dimension by dimension; the last one runs fastest."""
    return [
        np.arange(size).reshape([-1 if d == place else 1 for d in range(len(grid))])
        for place, size in enumerate(grid)
    ]


def computed(
    operation: Operation, known: Known, arrays: Mapping[int, np.ndarray]
) -> Scalars | None:
    """The result of an operation on scalars. `arrays` are those in scalar memory, by value."""
    if operation.name == "arith.constant":
        value = operation.attributes.get("value")
        return np.array(value) if isinstance(value, int) else None
    if operation.name == "memref.load":
        return _loaded(operation, known, arrays)
    inputs = [known.get(v.id) for v in operation.operands]
    given = [i for i in inputs if i is not None]
    return _of_known(operation, given) if given and len(given) == len(inputs) else None


def _of_known(operation: Operation, inputs: list[Scalars]) -> Scalars | None:
    name = operation.name
    if name in _SAME:
        return inputs[0]
    if name in _BINARY:
        return _BINARY[name](inputs[0], inputs[1])
    if name == "arith.select":
        return np.where(inputs[0], inputs[1], inputs[2])
    predicate = operation.attributes.get("predicate")
    if name != "arith.cmpi" or not isinstance(predicate, int):
        return None
    return _PREDICATES[predicate % len(_PREDICATES)](inputs[0], inputs[1]).astype(np.int64)


def _loaded(operation: Operation, known: Known, arrays: Mapping[int, np.ndarray]) -> Scalars | None:
    array = arrays.get(operation.operands[0].id)
    indices = [known.get(v.id) for v in operation.operands[1:]]
    given = [i for i in indices if i is not None]
    if array is None or len(given) != array.ndim:
        return None
    inside = (np.clip(i, 0, n - 1) for i, n in zip(given, array.shape, strict=True))
    return array[tuple(np.broadcast_arrays(*inside))]


def returned(
    function: Block, grid: Sequence[Scalars], arrays: Sequence[np.ndarray | None]
) -> list[Scalars | None]:
    """What a function of a place in the grid returns, such as where a window is."""
    known, held = given(function.arguments, grid, arrays)
    for operation in function.operations:
        if operation.name == "func.return":
            return [known.get(v.id) for v in operation.operands]
        for result in operation.results:
            known[result.id] = computed(operation, known, held)
    return []


def given(
    arguments: Sequence[Value], grid: Sequence[Scalars], arrays: Sequence[np.ndarray | None]
) -> tuple[Known, dict[int, np.ndarray]]:
    """The arguments of a kernel's functions: places in the grid, then arrays of scalars."""
    known: Known = {a.id: g for a, g in zip(arguments, grid, strict=False)}
    prefetched = zip(arguments[len(grid) :], arrays, strict=False)
    return known, {a.id: array for a, array in prefetched if array is not None}
