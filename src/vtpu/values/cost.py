"""What a program costs, estimated from its operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from vtpu.values.modules import functions_of, main_of, name_of


@dataclass(frozen=True, slots=True)
class Cost:
    """Floating-point operations, bytes that operations write, and how many operations there are.

    `is_certain`: every loop's count was read from the program. Loops without one count once.
    """

    flops: float = 0.0
    bytes: float = 0.0
    operations: int = 0
    is_certain: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes + other.bytes,
            self.operations + other.operations,
            self.is_certain and other.is_certain,
        )

    def times(self, count: int) -> Cost:
        """The cost of a loop's body that runs `count` times."""
        return Cost(self.flops * count, self.bytes * count, self.operations, self.is_certain)


#: Operations that run a function, and the attribute that names it.
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}


def estimate_cost(module: ir.Module) -> Cost:
    """The cost of running `module` once, on all of its devices together.

    A multiplication of matrices of m by k and k by n elements counts 2 m k n; any other operation one for
    each element of its results.
    """
    functions = {name_of(f): f for f in functions_of(module)}
    known: dict[str, Cost] = {}

    def of_function(name: str) -> Cost:
        if name not in known:
            known[name] = Cost()  # should it call itself
            known[name] = _of_regions(functions[name], of_function)
        return known[name]

    return _of_regions(main_of(module), of_function)


def _of_regions(operation: Any, of_function: Callable[[str], Cost]) -> Cost:
    flops = size = 0.0
    operations, nested = 0, Cost()
    for inner in _direct_operations(operation):
        name = inner.operation.name
        operations += 1
        if name == "stablehlo.while":
            trips = trip_count(inner)
            loop = _of_regions(inner, of_function).times(trips or 1)
            nested += Cost(loop.flops, loop.bytes, loop.operations, loop.is_certain and bool(trips))
        elif name in _CALLS:
            nested += of_function(ir.FlatSymbolRefAttr(inner.attributes[_CALLS[name]]).value)
        elif name in ("stablehlo.constant", "func.return", "stablehlo.return"):
            operations -= 1
        else:
            elements, written = _written(inner)
            flops += _flops(inner, name, elements)
            size += written
            if name in ("stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
                nested += _of_regions(inner, of_function)
    return Cost(flops, size, operations) + nested


def _direct_operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            yield from block.operations


def _written(operation: Any) -> tuple[int, float]:
    """Elements and bytes of the results."""
    elements, size = 0, 0.0
    for result in operation.results:
        if isinstance(result.type, ir.RankedTensorType):
            tensor = ir.RankedTensorType(result.type)
            count = math.prod(tensor.shape)
            elements += count
            size += count * _bits(tensor.element_type) / 8
    return elements, size


def _bits(element: Any) -> int:
    if isinstance(element, ir.ComplexType):
        return 2 * _bits(ir.ComplexType(element).element_type)
    return getattr(element, "width", 8)


def _flops(operation: Any, name: str, elements: int) -> float:
    if name == "stablehlo.dot_general":
        return 2.0 * elements * _contracted(operation)
    if name == "stablehlo.convolution":
        kernel = ir.RankedTensorType(operation.operands[1].type)
        numbers = str(operation.attributes["dimension_numbers"])
        layout = numbers.split("x[")[1].split("]", maxsplit=1)[0].split(",")
        outputs = kernel.shape[[d.strip() for d in layout].index("o")]
        return 2.0 * elements * math.prod(kernel.shape) / max(1, outputs)
    if name == "stablehlo.custom_call":  # a decomposition, a sort, a kernel
        sizes = [ir.RankedTensorType(v.type).shape for v in operation.operands
                 if isinstance(v.type, ir.RankedTensorType)]  # fmt: skip
        return max((math.prod(s) * (s[-1] if s else 1) for s in sizes), default=0) * 10.0
    if name in ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.sort"):
        return float(sum(math.prod(ir.RankedTensorType(v.type).shape) for v in operation.operands))
    return float(elements)


def _contracted(operation: Any) -> int:
    text = str(operation.attributes["dot_dimension_numbers"])
    left = ir.RankedTensorType(operation.operands[0].type).shape
    if "lhs_contracting_dimensions" not in text:
        return 1
    listed = text.split("lhs_contracting_dimensions = [")[1].split("]", maxsplit=1)[0]
    return math.prod(left[int(d)] for d in listed.split(",") if d.strip())


def trip_count(loop: Any) -> int | None:
    """How often a loop runs that counts from a constant by a constant to a constant, as JAX's do."""
    condition, body = (next(iter(region.blocks)) for region in loop.regions)
    *_, compare, end = [loop, *condition.operations]
    if compare.operation.name != "stablehlo.compare":
        return None
    if "LT" not in str(compare.attributes["comparison_direction"]):
        return None
    if end.operands[0] != compare.results[0]:
        return None
    counter, limit = compare.operands
    place = next((i for i, a in enumerate(condition.arguments) if a == counter), None)
    if place is None:
        return None
    stop = _constant(limit, loop, condition)
    start = _constant(loop.operands[place], loop, condition)
    step = _step(list(body.operations)[-1].operands[place], body.arguments[place])
    if stop is None or start is None or not step:
        return None
    return max(0, -(-(stop - start) // step))


def _constant(value: Any, loop: Any, condition: Any) -> int | None:
    """An integer that does not change in the loop."""
    for i, argument in enumerate(condition.arguments):
        if value == argument:  # carried, unchanged
            body = next(iter(loop.regions[1].blocks))
            if list(body.operations)[-1].operands[i] != body.arguments[i]:
                return None
            value = loop.operands[i]
            break
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return None
    return _integer(owner)


def _integer(constant: Any) -> int | None:
    elements = ir.DenseElementsAttr(constant.attributes["value"])
    value = elements.get_splat_value() if elements.is_splat else None
    return value.value if isinstance(value, ir.IntegerAttr) else None


def _step(value: Any, counter: Any) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.add":
        return None
    for mine, other in (owner.operands, reversed(list(owner.operands))):
        if mine == counter and not isinstance(other.owner, ir.Block):
            if other.owner.name != "stablehlo.constant":
                return None
            return _integer(other.owner)
    return None
