"""The work of a kernel, counted in its own operations at every place of its grid.

Conditions are evaluated where they depend on the place in the grid, on constants, and on arrays of
scalars that the program has as constants: the blocks that a causal mask leaves out are left out. Where a
condition depends on data, both sides are taken to run, and the work is a bound from above. A loop
whose end depends on data makes the work unknown.

Windows are copied when they differ from those of the place before, as Pallas' pipeline does it
(`jax/_src/pallas/mosaic/pipeline.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from vtpu.program.element_types import ElementType
from vtpu.program.kernels import Block, Kernel, KernelType, Operation, Value, Window
from vtpu.program.memory import MemorySpace
from vtpu.program.shapes import ArrayShape
from vtpu.program.work.amounts import MatrixProduct, Payload, Work
from vtpu.program.work.kernel_scalars import Known, Scalars, computed, given, places, returned

_LARGEST_GRID = 1 << 22  # places at which windows are compared one by one
_LONGEST_LOOP = 256  # runs of a loop that are looked at one by one
_CONTRACTED = re.compile(
    r"<\[([\d, ]*)\], \[[\d, ]*\], \[[\d, ]*\], \[[\d, ]*\], \[[\d, ]*\], \[([\d, ]*)\]"
)
_TRANSCENDENTAL = {
    "math.atan2", "math.cbrt", "math.cos", "math.erf", "math.exp", "math.exp2", "math.expm1", "math.log",
    "math.log1p", "math.log2", "math.powf", "math.rsqrt", "math.sin", "math.sqrt", "math.tan",
    "math.tanh", "tpu.erf", "tpu.reciprocal",
}  # fmt: skip
_COMPUTING = ("arith.", "math.")
#: Operations of other dialects that work on each element of their result.
_ALSO_COMPUTING = {
    "tpu.dynamic_rotate", "tpu.iota", "tpu.rotate", "tpu.transpose", "tpu.truncf", "tpu.extf",
    "tpu.fptosi", "tpu.sitofp", "tpu.roll_vectors", "vector.transpose",
}  # fmt: skip
_STORES = ("tpu.vector_store", "vector.store", "tpu.store", "tpu.strided_store")
_LOADS = ("vector.load", "tpu.vector_load", "tpu.load", "tpu.strided_load")
_REDUCTIONS = ("vector.multi_reduction", "tpu.all_reduce", "vector.reduction")
_MEMORIES = {"vmem": MemorySpace.VMEM, "smem": MemorySpace.SMEM}


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand or result of a kernel's call: its shape, and its elements where they are known."""

    shape: ArrayShape | None
    elements: np.ndarray | None = None


def kernel_work(kernel: Kernel, operands: Sequence[Operand], results: Sequence[Operand]) -> Work:
    """What one call of a kernel does."""
    prefetched = [o.elements for o in operands[: kernel.scalar_prefetch]]
    grid = places(kernel.grid)
    count = _Counting(kernel.grid)
    known, arrays = given(kernel.body.arguments, grid, prefetched)
    count.block(kernel.body, known, arrays, np.ones((1,) * len(grid)))
    windows = [*operands[kernel.scalar_prefetch :], *results]
    for number, (window, operand) in enumerate(zip(_windows(kernel), windows, strict=False)):
        is_result = number >= len(operands) - kernel.scalar_prefetch
        times = _copies(kernel, window, grid, prefetched)
        count.window(window, operand.shape, times, is_result=is_result)
    return count.work()


def _windows(kernel: Kernel) -> tuple[Window, ...]:
    """The kernel's windows; without a grid it has what it is given in VMEM as a whole."""
    if kernel.windows:
        return kernel.windows
    arguments = kernel.body.arguments[len(kernel.grid) + kernel.scalar_prefetch :]
    return tuple(Window(bounds=a.type.dims if a.type.memory == "vmem" else ()) for a in arguments)


def _copies(
    kernel: Kernel, window: Window, grid: list[Scalars], prefetched: list[np.ndarray | None]
) -> int | None:
    """How often a window is copied; None when it depends on data: then at every place at most."""
    function = kernel.functions.get(window.transform)
    if function is None:
        return 1
    whole = prod(kernel.grid)
    index = returned(function, grid, prefetched)
    places_known = [i for i in index if i is not None]
    if len(places_known) < len(index) or whole > _LARGEST_GRID:
        return None
    changes = np.zeros(max(0, whole - 1), bool)
    for one in places_known:
        flat = np.broadcast_to(one, kernel.grid).reshape(-1)
        changes |= flat[1:] != flat[:-1]
    return 1 + int(changes.sum())


@dataclass
class _Counting:
    """Adds up what a kernel's operations do."""

    grid: tuple[int, ...]
    products: dict[MatrixProduct, int] = field(default_factory=dict[MatrixProduct, int])
    vector_ops: float = 0
    transcendentals: float = 0
    read: dict[int, float] = field(default_factory=dict[int, float])
    written: dict[int, float] = field(default_factory=dict[int, float])
    remote: float = 0
    is_bound: bool = False
    is_unknown: bool = False

    def block(
        self, block: Block, known: Known, arrays: Mapping[int, np.ndarray], weight: Scalars
    ) -> list[Scalars | None]:
        """Counts a block that runs `weight` times at each place, and gives what it yields."""
        times = float(weight.mean()) * prod(self.grid)
        for operation in block.operations:
            name = operation.name
            if name == "scf.if":
                self._branch(operation, known, arrays, weight)
            elif name == "scf.for":
                self._loop(operation, known, arrays, weight)
            elif name == "scf.yield":
                return [known.get(v.id) for v in operation.operands]
            elif operation.regions:
                self._region(operation, known, arrays, weight)
            elif _is_scalar(operation.results):
                known[operation.results[0].id] = computed(operation, known, arrays)
            else:
                self._counted(operation, times)
        return []

    # ---- control flow --------------------------------------------------------------------------

    def _branch(
        self, operation: Operation, known: Known, arrays: Mapping[int, np.ndarray], weight: Scalars
    ) -> None:
        condition = known.get(operation.operands[0].id)
        sides = [weight, weight]
        if condition is not None:
            sides = [weight * (condition != 0), weight * (condition == 0)]
        elif any(_works(block) for block in operation.regions):
            self.is_bound = True
        yields = [
            self.block(block, known, arrays, side) if side.any() else []
            for block, side in zip(operation.regions, sides, strict=False)
        ]
        for number, result in enumerate(operation.results):
            known[result.id] = _chosen(condition, [y[number : number + 1] for y in yields])

    def _loop(
        self, operation: Operation, known: Known, arrays: Mapping[int, np.ndarray], weight: Scalars
    ) -> None:
        """The first operands of a loop are its begin, end and step; its block begins with the variable."""
        bounds = [known.get(v.id) for v in operation.operands[:3]]
        block = operation.regions[0]
        variable = block.arguments[0].id
        begin, end, step = (bounds + [None] * 3)[:3]
        if begin is None or end is None or step is None:
            self.is_unknown |= _works(block)
            return
        runs = np.maximum(0, -(-(end - begin) // np.where(step == 0, 1, step)))
        is_same = runs.size == begin.size == step.size == 1
        if is_same and _branches(block) and int(runs.max()) <= _LONGEST_LOOP:
            for number in range(int(runs.max())):
                known[variable] = begin + number * step
                self.block(block, known, arrays, weight)
            return
        known[variable] = None
        self.block(block, known, arrays, weight * runs)

    def _region(
        self, operation: Operation, known: Known, arrays: Mapping[int, np.ndarray], weight: Scalars
    ) -> None:
        """Anything else with operations inside: scopes run once, a `while` as often as data wants."""
        if operation.name == "scf.while":
            self.is_unknown |= any(_works(block) for block in operation.regions)
            return
        for block in operation.regions:
            self.block(block, known, arrays, weight)

    # ---- operations ----------------------------------------------------------------------------

    def _counted(self, operation: Operation, times: float) -> None:
        name = operation.name
        if name in ("tpu.matmul", "vector.contract"):
            self._product(operation, times)
        elif name in _REDUCTIONS:
            self.vector_ops += times * _elements(operation.operands)
        elif name in _TRANSCENDENTAL:
            self.transcendentals += times * _elements(operation.results)
        elif name in _ALSO_COMPUTING or (name.startswith(_COMPUTING) and name != "arith.constant"):
            self.vector_ops += times * _elements(operation.results)
        elif name in _LOADS:
            self._moved(self.read, operation.operands[0].type, operation.results[0].type, times)
        elif name in _STORES:
            memory = next((v.type for v in operation.operands if v.type.memory), None)
            if memory is not None:
                self._moved(self.written, memory, operation.operands[0].type, times)
        elif name == "tpu.enqueue_dma":
            self._copied(operation, times)

    def _product(self, operation: Operation, times: float) -> None:
        found = _product_of(operation)
        if found is None:
            self.is_unknown = True
        elif times:
            self.products[found] = self.products.get(found, 0) + round(times)

    def _moved(
        self, total: dict[int, float], memory: KernelType, vector: KernelType, times: float
    ) -> None:
        space = _MEMORIES.get(memory.memory, MemorySpace.HBM)
        total[space] = total.get(space, 0) + times * _bytes(vector)

    def _copied(self, operation: Operation, times: float) -> None:
        """A copy that the kernel starts itself, from the first memory to the second; to another chip too."""
        memories = [v.type for v in operation.operands if v.type.memory and v.type.element]
        if len(memories) < 2:
            return
        self._moved(self.read, memories[0], memories[0], times)
        self._moved(self.written, memories[1], memories[1], times)
        sizes = operation.attributes.get("operandSegmentSizes", ())
        if isinstance(sizes, tuple) and len(sizes) >= 5 and sizes[4]:  # it names a device
            self.remote += times * _bytes(memories[0])

    def window(
        self, window: Window, shape: ArrayShape | None, times: int | None, *, is_result: bool
    ) -> None:
        """Adds the copies of a window between the operand's memory and VMEM."""
        if shape is None or not window.bounds:
            return
        if times is None:
            self.is_bound = True
            times = prod(self.grid)
        fits = len(window.bounds) == len(shape.dims)
        dims = (
            tuple(min(a, b) for a, b in zip(window.bounds, shape.dims, strict=True)) if fits else ()
        )
        size = replace(shape, dims=dims).padded_bytes if fits else shape.padded_bytes
        space = shape.layout.memory_space
        source, target = (self.written, self.read) if is_result else (self.read, self.written)
        source[space] = source.get(space, 0) + times * size
        if space != MemorySpace.VMEM:
            target[MemorySpace.VMEM] = target.get(MemorySpace.VMEM, 0) + times * size

    def work(self) -> Work:
        """All of it."""
        products = tuple(
            replace(p, batch=p.batch * n, multiply_adds=p.multiply_adds * n)
            for p, n in self.products.items()
        )
        known = not self.is_unknown
        remote = round(self.remote)
        return Work(
            flops=sum(p.flops for p in products) if known else None,
            vector_ops=round(self.vector_ops) if known else None,
            transcendentals=round(self.transcendentals) if known else None,
            read={space: round(size) for space, size in self.read.items() if size},
            written={space: round(size) for space, size in self.written.items() if size},
            products=products,
            payload=Payload(remote, remote) if remote else None,
            is_bound=self.is_bound,
        )


def _chosen(condition: Scalars | None, sides: list[list[Scalars | None]]) -> Scalars | None:
    values = [side[0] if side else None for side in sides]
    if condition is None or len(values) < 2:
        return None
    chosen, other = values[0], values[1]
    if chosen is None or other is None:
        return chosen if condition.all() else other if not condition.any() else None
    return np.where(condition != 0, chosen, other)


def _product_of(operation: Operation) -> MatrixProduct | None:
    """The product of a `tpu.matmul` of two matrices and what is added to them."""
    if len(operation.operands) < 2 or not operation.results:
        return None
    lhs, rhs, result = (v.type for v in (*operation.operands[:2], operation.results[0]))
    if lhs.element is None or rhs.element is None or result.element is None:
        return None
    contracted, batch = _contracted(operation, lhs)
    k = prod(lhs.dims[d] for d in contracted)
    b = prod(lhs.dims[d] for d in batch)
    m = prod(lhs.dims) // max(1, k * b)
    n = prod(rhs.dims) // max(1, k * b)
    is_wide = ElementType.F32 in (lhs.element, rhs.element)
    is_precise = "fp32" in str(operation.attributes.get("precision", ""))
    return MatrixProduct(
        batch=b,
        m=m,
        n=n,
        k=k,
        multiply_adds=b * m * n * k,
        lhs=lhs.element,
        rhs=rhs.element,
        result=result.element,
        passes=6 if is_wide and is_precise else 1,
    )


def _contracted(operation: Operation, lhs: KernelType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of the left side that are summed, and those of a batch: by default the last."""
    numbers = operation.attributes.get("dimension_numbers")
    match = _CONTRACTED.search(numbers) if isinstance(numbers, str) else None
    if match is None:
        return (len(lhs.dims) - 1,), ()
    return _listed(match[1]), _listed(match[2])


def _listed(numbers: str) -> tuple[int, ...]:
    return tuple(int(n) for n in numbers.split(",") if n.strip())


def _works(block: Block) -> bool:
    """Whether a block does more than move scalars."""
    return any(
        not _is_scalar(o.results)
        and (o.results or o.regions or o.name in (*_STORES, "tpu.enqueue_dma"))
        for o in block.operations
    )


def _branches(block: Block) -> bool:
    return any(o.regions for o in block.operations)


def _is_scalar(results: Sequence[Value]) -> bool:
    return len(results) == 1 and not results[0].type.dims and not results[0].type.is_vector


def _elements(values: Sequence[Value]) -> int:
    """The elements of the first value; an operation's values are all as large."""
    return prod(values[0].type.dims) if values and values[0].type.is_vector else 0


def _bytes(type_: KernelType) -> int:
    return -(-prod(type_.dims) * (type_.element.bits if type_.element else 0) // 8)
