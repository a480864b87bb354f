"""Kernels from the MLIR bytecode that a `tpu_custom_call` carries, read by jaxlib's own reader.

The bytecode is in base64 in the custom call's attributes. Its dialect is Mosaic's, in a form with a
version (`stable_mosaic.version`) whose operations have the names and attributes of the dialects `arith`,
`math`, `vector`, `scf`, `memref` and `tpu`. The reader is in `jaxlib.mosaic`, which is private (jaxlib
0.10.2 and 0.12.0.1 have it alike) and is imported when the first kernel is read.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from vtpu.program.element_types import ElementType
from vtpu.program.kernels import Attribute, Block, Kernel, KernelType, Operation, Value, Window
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.value_origins import Origins
from vtpu.program.work import Work
from vtpu.program.work.custom_calls import kernel_config
from vtpu.program.work.kernels import Operand, kernel_work

_VERSIONED = "stable_mosaic."
_PARALLEL = "parallel"  # of `#tpu.dimension_semantics<parallel>`; also `core_parallel`
_TYPE = re.compile(r"(vector|memref)<((?:\d+x)*)([a-zA-Z]\w*|!tpu\.\w+)\s*(?:,.*)?>$", re.DOTALL)
_MEMORY = re.compile(r"#tpu\.memory_space<(\w+)>")
_ELEMENTS = {
    "bf16": ElementType.BF16, "f16": ElementType.F16, "f32": ElementType.F32, "f64": ElementType.F64,
    "f8E4M3FN": ElementType.F8E4M3FN, "f8E5M2": ElementType.F8E5M2,
    "f8E4M3B11FNUZ": ElementType.F8E4M3B11FNUZ, "f8E4M3FNUZ": ElementType.F8E4M3FNUZ,
    "f8E5M2FNUZ": ElementType.F8E5M2FNUZ, "f4E2M1FN": ElementType.F4E2M1FN,
    "i1": ElementType.PRED, "i2": ElementType.S2, "i4": ElementType.S4, "i8": ElementType.S8,
    "i16": ElementType.S16, "i32": ElementType.S32, "i64": ElementType.S64, "index": ElementType.S32,
}  # fmt: skip


#: Attributes of operations that say how much work they are; all others are left out.
_NEEDED = frozenset({
    "dimension_numbers", "operandSegmentSizes", "precision", "predicate", "reduction_dims", "value",
})  # fmt: skip


def kernel_works(module: Module) -> Callable[[Instruction], Work | None]:
    """What counts the work of a module's kernels from their bodies; None for one that cannot be read.

    It is what `vtpu.program.work.work_of` asks.
    """
    origins = Origins(module)

    def work(call: Instruction) -> Work | None:
        kernel = kernel_in(call)
        if kernel is None:  # then the kernel's author is asked
            return None
        operands = [_operand(origins, module.by_id[o]) for o in call.operands]
        results = [Operand(s if isinstance(s, ArrayShape) else None) for _, s in leaves(call.shape)]
        return kernel_work(kernel, operands, results)

    return work


def _operand(origins: Origins, value: Instruction) -> Operand:
    shape = value.shape if isinstance(value.shape, ArrayShape) else None
    constant = origins.constant(value)
    if shape is None or constant is None or not constant.elements:
        return Operand(shape)
    dtype = shape.element_type.numpy_dtype
    return Operand(shape, np.frombuffer(constant.elements, dtype).reshape(shape.dims))


def kernel_in(call: Instruction) -> Kernel | None:
    """The kernel that a custom call is; None for one that is none, or cannot be read."""
    body = kernel_config(call.attributes).get("body")
    if not isinstance(body, str):
        return None
    try:
        return read_kernel(body)
    except KernelError:
        return None


class KernelError(ValueError):
    """A kernel that cannot be read, with the reason."""


def read_kernel(body: str) -> Kernel:
    """The kernel in a custom call's `body`.

    Raises:
        KernelError: it is none, it is damaged, or this jaxlib has no reader.
    """
    found = _read(body)
    if isinstance(found, str):
        raise KernelError(found)
    return found


@functools.lru_cache(maxsize=256)
def _read(body: str) -> Kernel | str:
    """The kernel, or why there is none: layers of a model have the same one many times."""
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        return f"the kernel is not in base64: {error}"
    if not data.startswith(b"ML\xefR"):
        return "the kernel is not MLIR bytecode"
    try:
        from jaxlib.mlir import ir
        from jaxlib.mosaic.python import tpu
    except ImportError as error:
        return f"this release of jaxlib has no reader of kernels: {error}"
    context = ir.Context()
    context.allow_unregistered_dialects = True  # the form with a version is one
    context.attach_diagnostic_handler(lambda _: True)  # MLIR prints what nobody handles
    tpu.register_dialect(context)
    with context, ir.Location.unknown():
        try:
            return _kernel(ir.Module.parse(data))
        except (ir.MLIRError, ValueError, KeyError, IndexError) as error:
            return f"the kernel cannot be read: {str(error).strip()[:200]}"


def _kernel(module: Any) -> Kernel:
    """The function with a grid is the kernel; the others say where its windows are."""
    reader = _Reader()
    functions = [op.operation for op in module.body.operations]
    blocks = {_text(f, "sym_name"): reader.block(f.regions[0].blocks[0]) for f in functions}
    main = next((f for f in functions if "iteration_bounds" in f.attributes), functions[0])
    attributes = _attributes(main.attributes)
    windows = attributes.get("window_params", ())
    name = _text(main, "sym_name")
    return Kernel(
        name=name,
        grid=_numbers(attributes.get("iteration_bounds", ())),
        body=blocks[name],
        functions=blocks,
        windows=tuple(_window(w) for w in windows) if isinstance(windows, tuple) else (),
        scalar_prefetch=prefetch
        if isinstance(prefetch := attributes.get("scalar_prefetch", 0), int)
        else 0,
        parallel=tuple(_PARALLEL in str(s) for s in semantics)
        if isinstance(semantics := attributes.get("dimension_semantics", ()), tuple)
        else (),
    )


def _window(attribute: Attribute) -> Window:
    """A window from its dictionary, which is a tuple of names and values."""
    pairs = attribute if isinstance(attribute, tuple) else ()
    fields = {p[0]: p[1] for p in pairs if isinstance(p, tuple) and len(p) == 2}
    transform = fields.get("transform_indices", "")
    return Window(
        bounds=_numbers(fields.get("window_bounds", ())),
        transform=transform if isinstance(transform, str) else "",
    )


def _numbers(attribute: Attribute) -> tuple[int, ...]:
    values = attribute if isinstance(attribute, tuple) else (attribute,)
    return tuple(v for v in values if isinstance(v, int))


class _Reader:
    """Numbers the values of a module and reads its types once each."""

    def __init__(self) -> None:
        self._values: dict[Any, Value] = {}
        self._types: dict[str, KernelType] = {}

    def block(self, block: Any) -> Block:
        arguments = tuple(self._new(a) for a in block.arguments)
        return Block(arguments, tuple(self._operation(op.operation) for op in block.operations))

    def _operation(self, op: Any) -> Operation:
        operands = tuple(self._values[v] for v in op.operands)
        results = tuple(self._new(v) for v in op.results)
        blocks = [block for region in op.regions for block in list(region.blocks)[:1]]
        return Operation(
            name=op.name.removeprefix(_VERSIONED),
            operands=operands,
            results=results,
            attributes=_attributes(op.attributes, _NEEDED),
            regions=tuple(self.block(b) for b in blocks),
        )

    def _new(self, value: Any) -> Value:
        found = Value(len(self._values), self._type(str(value.type)))
        self._values[value] = found
        return found

    def _type(self, text: str) -> KernelType:
        if text not in self._types:
            self._types[text] = _parse_type(text)
        return self._types[text]


def _parse_type(text: str) -> KernelType:
    match = _TYPE.match(text)
    if match is None:
        return KernelType(_ELEMENTS.get(text))
    dims = tuple(int(d) for d in match[2].split("x") if d)
    memory = _MEMORY.search(text)
    return KernelType(
        _ELEMENTS.get(match[3]), dims, memory[1] if memory else "", match[1] == "vector"
    )


def _text(op: Any, name: str) -> str:
    return str(op.attributes[name].value) if name in op.attributes else ""


def _attributes(named: Any, needed: frozenset[str] | None = None) -> dict[str, Attribute]:
    """Attributes by name. Iterating over them gives names in some releases, so they are numbered."""
    found = (named[i] for i in range(len(named)))
    return {a.name: _attribute(a.attr) for a in found if needed is None or a.name in needed}


def _attribute(attribute: Any) -> Attribute:
    """An attribute as a plain value. A large constant is only its type."""
    from jaxlib.mlir import ir

    match attribute:
        case ir.IntegerAttr() | ir.BoolAttr():
            found = int(attribute.value)
        case ir.StringAttr() | ir.FlatSymbolRefAttr():
            found = str(attribute.value)
        case ir.ArrayAttr():
            found = tuple(_attribute(a) for a in attribute)
        case ir.DictAttr():
            found = tuple(_attributes(attribute).items())
        case ir.DenseI64ArrayAttr() | ir.DenseI32ArrayAttr():
            found = tuple(int(n) for n in attribute)
        case ir.DenseElementsAttr():
            found = str(attribute.type)
        case _:
            found = str(attribute)
    return found
