"""Temporaries at the peak that programs need not hold whole: one-hot labels, logits, attention scores.

They are recognised in the compiled module. A softmax is a sum of exponentials over a dimension, or a
maximum over one of an array of which exponentials are taken too. Where that dimension comes from a product with a matrix, `[.., d]` times
`[d, v]`, the array is logits; where the product is batched and the dimension stands beside one of
about its size, it is attention scores, `[.., q, k]`. Their gradients, probabilities, masks and
copies have the same dimensions and are the same matter. One-hot labels are a comparison with a range
of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from vtpu.analysis.program.memory import MemoryItem, MemoryUsage
from vtpu.analysis.program.pieces import pieces_of
from vtpu.analysis.program.sources import filled_by
from vtpu.program.memory import AllocationKind
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves

_LEAST_CLASSES = 1024  # of logits: fewer are no vocabulary
_LEAST_KEYS = 512
_FEWEST_BLOCKS = 8  # so many blocks of queries and more are no longer the whole
_LONGEST_CHAIN = 16
_LOOP = "/while/body/"
_REDUCTIONS = ("reduce", "reduce-window")
_SOFTMAX_CALL = "online-softmax"
_SAME_VALUES = {"convert", "bitcast", "reshape", "copy", "transpose", "reduce-precision"}


class ValueKind(StrEnum):
    """What a large value is."""

    ONE_HOT = "one-hot"
    LOGITS = "logits"
    SCORES = "attention scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeValue:
    """What is one matter at the peak of HBM: `items`, largest first.

    `dims` are of the array as it is defined. `size` is that of the dimension which makes it large:
    classes, words of the vocabulary, keys.
    """

    kind: ValueKind
    dims: tuple[int, ...]
    size: int
    items: tuple[MemoryItem, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True, slots=True)
class _Softmax:
    """A softmax over the dimension `axis` of arrays with these dimensions."""

    dims: tuple[int, ...]
    axis: int

    @property
    def size(self) -> int:
        return self.dims[self.axis]

    @property
    def queries(self) -> int:
        """What stands beside the dimension, if that is the last; else 1, or its like."""
        if self.axis and self.axis == len(self.dims) - 1:
            return self.dims[self.axis - 1]
        return self.size if self.dims.count(self.size) > 1 else 1


def find_large_values(module: Module, usage: MemoryUsage) -> tuple[LargeValue, ...]:
    """The large values at the peak of HBM, each item in one of them, the largest first."""
    hbm = usage.hbm
    if hbm is None:
        return ()
    left = [i for i in hbm.at_peak() if i.occupant.kind is AllocationKind.TEMP and i.shape]
    found: list[LargeValue] = []
    for value in (*_one_hots(module, left), *_of_softmaxes(module, left)):
        items = tuple(i for i in value.items if i in left)
        left = [i for i in left if i not in items]
        if items:
            found.append(LargeValue(kind=value.kind, dims=value.dims, size=value.size, items=items))
    return tuple(sorted(found, key=lambda v: -v.bytes))


# ---- logits and scores -------------------------------------------------------------------------


def _of_softmaxes(module: Module, items: list[MemoryItem]) -> Iterator[LargeValue]:
    for softmax in sorted(_softmaxes(module), key=lambda s: (-prod(s.dims), s.dims, s.axis)):
        kind = _kind(module, softmax)
        if kind is None:
            continue
        own = [i for i in items if i.shape and _is_of(i.shape, softmax, kind)]
        if kind is ValueKind.LOGITS:
            own = [i for i in own if not _is_a_chunk(i, softmax)]
        yield LargeValue(kind=kind, dims=softmax.dims, size=softmax.size, items=tuple(own))


def _softmaxes(module: Module) -> set[_Softmax]:
    """Sums along one dimension of exponentials, and maxima of what exponentials are taken of.

    The compiler may turn them into windows over whole rows, and the whole with the product behind it into a
    call of its own, `online-softmax`.
    """
    arrays = [(i, i.shape) for i in module.by_id.values() if isinstance(i.shape, ArrayShape)]
    exponentials = {shape.dims for i, shape in arrays if i.opcode == "exponential"}
    found = {s for i, _ in arrays if i.opcode in _REDUCTIONS and (s := _softmax_by(module, i))}
    calls = {s for i in module.by_id.values() if (s := _softmax_of_call(module, i))}
    return {s for s in found if s.dims in exponentials} | calls


def _softmax_of_call(module: Module, call: Instruction) -> _Softmax | None:
    if call.opcode != "custom-call" or _SOFTMAX_CALL not in call.op_name or not call.operands:
        return None
    scores = module.by_id.get(call.operands[0])
    shape = scores.shape if scores else None
    return _Softmax(shape.dims, len(shape.dims) - 1) if isinstance(shape, ArrayShape) and shape.dims else None  # fmt: skip


def _softmax_by(module: Module, reduction: Instruction) -> _Softmax | None:
    windows = tuple(n for n, w in enumerate(reduction.window) if w.size > 1)
    dimensions = reduction.dimensions or windows
    if len(dimensions) != 1 or len(reduction.called) != 1:
        return None
    reducer = module.computations.get(reduction.called[0])
    root = module.by_id.get(reducer.root) if reducer else None
    array = module.by_id.get(reduction.operands[0])
    if root is None or array is None or not isinstance(array.shape, ArrayShape):
        return None
    is_sum = root.opcode == "add" and _origin(module, array).opcode == "exponential"
    found = _Softmax(array.shape.dims, dimensions[0])
    return found if is_sum or root.opcode == "maximum" else None


def _origin(module: Module, array: Instruction) -> Instruction:
    """What makes an array's values, behind what leaves them as they are."""
    for _ in range(_LONGEST_CHAIN):
        operand = module.by_id.get(array.operands[0]) if array.operands else None
        if array.opcode not in _SAME_VALUES or operand is None:
            break
        array = operand
    return array


def _kind(module: Module, softmax: _Softmax) -> ValueKind | None:
    products = [(i, n) for i in module.by_id.values() if (n := _pieces(module, i, softmax))]
    has_matrix = any(
        _is_matrix_with(softmax.size // n, f) for i, n in products for f in _factors(module, i)
    )
    is_batched = len(_large(softmax.dims)) > 2
    if has_matrix and not (is_batched and _are_keys(module, softmax)):
        return ValueKind.LOGITS if softmax.size >= _LEAST_CLASSES else None
    is_whole = _all_queries(module, softmax) * _FEWEST_BLOCKS > softmax.size >= _LEAST_KEYS
    return ValueKind.SCORES if is_whole and is_batched and products else None


def _all_queries(module: Module, softmax: _Softmax) -> int:
    """The queries of all devices, where a sequence that is as long as the keys is spread over them."""
    for argument in pieces_of(module)[0]:
        sizes = zip(argument.shape.dims, argument.whole or (), strict=False)
        if (softmax.queries, softmax.size) in sizes:
            return softmax.size
    return softmax.queries


def _are_keys(module: Module, softmax: _Softmax) -> bool:
    """Whether a matrix `[d, size]` are keys that all heads share, and no weights: no argument has that size.

    A chip has a part of an argument that is sharded, and multiplies with the whole.
    """
    sizes = {d for p in module.parameters() for d in _matrix_dims(p.shape)}
    parts = range(1, max(1, len(module.devices)) + 1)
    return not any(softmax.size == size * part for size in sizes for part in parts)


def _pieces(module: Module, product: Instruction, softmax: _Softmax) -> int:
    """In how many pieces a product gives the array, maybe with other dimensions beside `size`; 0: not at all.

    Where a factor is spread over devices, the compiler may multiply with one device's part after the other.
    """
    shape = product.shape
    if product.opcode not in ("dot", "convolution") or not isinstance(shape, ArrayShape):
        return 0
    pieces, rest = divmod(prod(softmax.dims), prod(shape.dims) or 1)
    if pieces == 1 and not rest and softmax.size in shape.dims:
        return 1
    is_one_of_many = 1 < pieces <= len(module.devices) and not rest and softmax.size % pieces == 0
    return pieces if is_one_of_many and softmax.queries in shape.dims else 0


def _factors(module: Module, product: Instruction) -> list[tuple[int, ...]]:
    shapes = (module.by_id[o].shape for o in product.operands)
    return [_large(shape.dims) for shape in shapes if isinstance(shape, ArrayShape)]


def _is_matrix_with(size: int, dims: tuple[int, ...]) -> bool:
    return len(dims) == 2 and size in dims


def _large(dims: Iterable[int]) -> tuple[int, ...]:
    return tuple(d for d in dims if d > 1)


def _is_of(shape: ArrayShape, softmax: _Softmax, kind: ValueKind) -> bool:
    """Whether an array is the softmax's, or as many of them as a loop keeps."""
    dims = shape.dims
    if softmax.size not in dims or prod(dims) % prod(softmax.dims):
        return False
    if kind is ValueKind.LOGITS:
        return True
    rest = list(dims)
    rest.remove(softmax.size)
    return softmax.queries in rest


def _is_a_chunk(item: MemoryItem, softmax: _Softmax) -> bool:
    """Whether a loop within the differentiated function, or without one, makes it piece by piece.

    A loop around the function is one over parts of a batch. What a loop keeps of all runs is larger.
    """
    inside = item.op_name.rpartition("jvp(")[2]
    is_kept = item.shape is not None and prod(item.shape.dims) > prod(softmax.dims)
    return _LOOP in inside and not is_kept


# ---- one-hot -----------------------------------------------------------------------------------


def _one_hots(module: Module, items: list[MemoryItem]) -> Iterator[LargeValue]:
    """Arrays of one-hot labels, by shape."""
    groups: dict[tuple[int, ...], list[MemoryItem]] = {}
    for item in items:
        if item.shape and len(_large(item.shape.dims)) > 1 and _is_one_hot(module, item):
            groups.setdefault(item.shape.dims, []).append(item)
    for dims, found in groups.items():
        yield LargeValue(kind=ValueKind.ONE_HOT, dims=dims, size=dims[-1], items=tuple(found))


def _is_one_hot(module: Module, item: MemoryItem) -> bool:
    if "_one_hot" in item.op_name:
        return True
    found = next((i for i in module.by_id.values() if i.name == item.name), None)
    return found is not None and _compares_with_range(module, found)


def _compares_with_range(module: Module, instruction: Instruction) -> bool:
    """Whether a value is `labels == range`, as numbers, or that times something."""
    waiting = [instruction]
    for at in waiting:
        if at.opcode == "compare" and at.direction == "EQ":
            if any(_is_range(module, o) for o in at.operands):
                return True
        elif len(waiting) < _LONGEST_CHAIN:
            waiting += _behind(module, at)
    return False


def _behind(module: Module, at: Instruction) -> list[Instruction]:
    """What has the same values as an instruction, but for factors."""
    if filled := filled_by(module, at):
        return [filled]
    numbers: tuple[int, ...] = ()
    if at.opcode == "fusion":
        bodies = (module.computations.get(n) for n in at.called[:1])
        numbers = tuple(body.root for body in bodies if body)
    elif at.opcode == "parameter":
        caller = module.callers.get(at.id)
        is_fused = caller is not None and caller.opcode == "fusion"
        numbers = caller.operands[at.parameter_number or 0 :][:1] if caller and is_fused else ()
    elif at.opcode == "dynamic-update-slice":
        numbers = at.operands[1:2]
    elif at.opcode == "multiply":
        numbers = at.operands
    elif at.opcode in _SAME_VALUES:
        numbers = at.operands[:1]
    return [i for n in numbers if (i := module.by_id.get(n))]


def _is_range(module: Module, number: int) -> bool:
    at = module.by_id.get(number)
    for _ in range(_LONGEST_CHAIN):
        if at is None:
            return False
        if at.opcode == "iota":
            return True
        if at.opcode not in ("broadcast", "bitcast", "reshape", "convert") or not at.operands:
            return False
        at = module.by_id.get(at.operands[0])
    return False


def _matrix_dims(shape: Shape) -> set[int]:
    arrays = [s for _, s in leaves(shape) if isinstance(s, ArrayShape)]
    return {d for s in arrays if len(s.dims) > 1 for d in s.dims}
