"""Programs as MLIR modules: reading portable ones, and their main function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from vtpu.program.element_types import ElementType

TOKEN = "!stablehlo.token"  # noqa: S105, a type of MLIR


def new_context() -> ir.Context:
    """A context for one program: modules of different contexts can be worked on side by side."""
    context = ir.Context()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.attach_diagnostic_handler(lambda _: True)  # the user's stderr is not for us
    context.enable_multithreading(False)
    return context


def read_module(code: bytes) -> ir.Module:
    """The module of a portable program, in a context of its own.

    Raises:
        ValueError: the bytes are not one.
    """
    context = new_context()
    try:
        return stablehlo.deserialize_portable_artifact(context, code)
    except ir.MLIRError as error:
        raise ValueError(f"not a portable program: {error}") from error


def main_of(module: ir.Module) -> Any:
    """The function that is executed."""
    return next(f for f in functions_of(module) if name_of(f) == "main")


def functions_of(module: ir.Module) -> Iterator[Any]:
    """All functions."""
    return (op for op in module.body.operations if op.operation.name == "func.func")


def name_of(function: Any) -> str:
    """A function's symbol."""
    return ir.StringAttr(function.attributes["sym_name"]).value


def block_of(function: Any) -> ir.Block:
    """The body of a function."""
    return function.regions[0].blocks[0]


def return_of(function: Any) -> Any:
    """The operation that ends a function."""
    return list(block_of(function).operations)[-1]


def operations_in(operation: Any) -> list[Any]:
    """All operations within one in order; one that has regions comes before what is in them."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    operation.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]  # the walk begins with the operation itself


def set_signature(function: Any) -> None:
    """Makes the type of a function what its body says, and drops attributes that do not fit."""
    block = block_of(function)
    inputs = [a.type for a in block.arguments]
    outputs = [v.type for v in return_of(function).operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))


def dictionaries(function: Any, name: str, count: int) -> list[dict[str, Any]]:
    """The attributes of each argument (`arg_attrs`) or result (`res_attrs`)."""
    if name not in function.attributes:
        return [{} for _ in range(count)]
    return [
        {item.name: item.attr for item in ir.DictAttr(entry)}
        for entry in ir.ArrayAttr(function.attributes[name])
    ]


def set_dictionaries(function: Any, name: str, values: list[dict[str, Any]]) -> None:
    """Sets the attributes of each argument or result."""
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(v) for v in values])


def dtype_of(element: str) -> np.dtype[Any]:
    """NumPy's type for an element type as MLIR prints it: `f32`, `bf16`, `ui8`, `i1`."""
    special = {"i1": "PRED", "complex<f32>": "C64", "complex<f64>": "C128"}
    if element.startswith("ui"):
        name = "u" + element[2:]
    elif element.startswith("i"):
        name = "s" + element[1:]
    else:
        name = element
    return ElementType[special.get(element, name.upper())].numpy_dtype
