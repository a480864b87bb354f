"""What JAX gives a CPU in the place of what only the TPU's compiler knows.

A custom call or composite that XLA has for TPUs alone (eigenvalues, QR, approximate top-k, ragged
products, Pallas kernels) is replaced by the function of the JAX primitive behind it, lowered for CPUs by JAX itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

from vtpu.values.kernels import find_kernel, interpreter_of
from vtpu.values.modules import dtype_of, functions_of, name_of

_KNOWN_TO_CPU = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.",
    "xla_ffi_python_cpu_callback",
    "mhlo.",
    "stablehlo.",
    "chlo.",
)


class NoCpuForm(Exception):
    """A program does what only TPUs can do. `str()` says what."""


def is_known_to_cpu(target: str) -> bool:
    """Whether XLA's CPU compiler takes a custom call as it is."""
    return target.startswith(_KNOWN_TO_CPU)


def is_replaced(composite: Any) -> bool:
    """Whether XLA's CPU compiler lacks what a composite stands for, and JAX has it."""
    return ir.StringAttr(composite.attributes["name"]).value in _FUNCTIONS


def replacement_for(module: ir.Module, operation: Any) -> str:
    """The name of a function, added to `module`, that gives what a custom call or composite gives.

    Raises:
        NoCpuForm: there is none.
    """
    is_composite = operation.name == "stablehlo.composite"
    named = operation.attributes["name" if is_composite else "call_target_name"]
    target = ir.StringAttr(named).value
    make = _FUNCTIONS.get(target)
    if make is None:
        raise NoCpuForm(f"the custom call {target} exists on TPUs only")
    arguments = [_array_like(v.type) for v in operation.operands]
    function = make(operation)
    lowered = _in_fresh_thread(lambda: _lower(function, arguments))
    return _add(module, lowered)


def _array_like(kind: Any) -> Any:
    import jax

    tensor = ir.RankedTensorType(kind)
    return jax.ShapeDtypeStruct(tuple(tensor.shape), dtype_of(str(tensor.element_type)))


def _lower(function: Callable[..., Any], arguments: list[Any]) -> str:
    """The text of a function's module as JAX makes it for CPUs."""
    import jax

    with jax.enable_x64(True):
        traced = jax.jit(function, keep_unused=True).trace(*arguments)
        return str(traced.lower(lowering_platforms=("cpu",)).compiler_ir())


def _in_fresh_thread(work: Callable[[], str]) -> str:
    """The result of `work`, untouched by what the calling thread is tracing or has configured."""
    out: list[str] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            out.append(work())
        except Exception as error:
            problem.append(error)

    thread = threading.Thread(target=run, name="vtpu-lowering")
    thread.start()
    thread.join()
    if problem:
        raise NoCpuForm(f"JAX has no form of it for CPUs: {problem[0]}") from problem[0]
    return out[0]


def _add(module: ir.Module, text: str) -> str:
    """Adds the functions of another module under new names; the name of its main function."""
    number = sum(1 for _ in functions_of(module))
    other = ir.Module.parse(text)
    renamed = {name_of(f): f"vtpu_{number}_{name_of(f)}" for f in functions_of(other)}
    for function in list(functions_of(other)):
        _rename(function.operation, renamed)
        copied = function.operation.clone()
        copied.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for name in ("arg_attrs", "res_attrs"):
            if name in copied.attributes:
                del copied.attributes[name]
        module.body.append(copied)
    return renamed["main"]


def _rename(function: Any, renamed: dict[str, str]) -> None:
    def visit(operation: Any) -> Any:
        for name in ("sym_name", "callee"):
            if name in operation.attributes:
                old = str(operation.attributes[name]).strip('@"')
                if old in renamed:
                    kind = ir.StringAttr if name == "sym_name" else ir.FlatSymbolRefAttr
                    operation.attributes[name] = kind.get(renamed[old])
        return ir.WalkResult.ADVANCE

    function.walk(visit)


# ---- the functions -----------------------------------------------------------------------------


def _config(operation: Any) -> str:
    return ir.StringAttr(operation.attributes["backend_config"]).value


def _eigh(operation: Any) -> Callable[..., Any]:
    from jax._src.lax import linalg

    lower, sort, *_ = _config(operation).split(",")

    def eigh(x: Any) -> Any:
        v, w = linalg.eigh(
            x, lower=lower == "1", sort_eigenvalues=sort == "1", symmetrize_input=False
        )
        return v, w

    return eigh


def _qr(operation: Any) -> Callable[..., Any]:  # noqa: ARG001, no settings
    from jax._src.lax import linalg

    return linalg.geqrf


def _householder(operation: Any) -> Callable[..., Any]:  # noqa: ARG001, no settings
    from jax._src.lax import linalg

    return linalg.householder_product


def _lu(operation: Any) -> Callable[..., Any]:  # noqa: ARG001, no settings
    from jax._src.lax import linalg

    return linalg.lu


def _approximate_top_k(operation: Any) -> Callable[..., Any]:
    import jax

    settings = ir.DictAttr(operation.attributes["mhlo.backend_config"])
    dimension = ir.IntegerAttr(settings["reduction_dim"]).value
    k = ir.RankedTensorType(operation.results[0].type).shape[dimension]
    called = str(operation.attributes["called_computations"])
    is_greatest = "_gt_" in called

    def top_k(operand: Any, indices: Any, start: Any, no_index: Any) -> Any:  # noqa: ARG001
        values = operand if is_greatest else -operand
        _, chosen = jax.lax.top_k(jax.numpy.moveaxis(values, dimension, -1), k)
        chosen = jax.numpy.moveaxis(chosen, -1, dimension)
        take = jax.numpy.take_along_axis
        return take(operand, chosen, dimension), take(indices, chosen, dimension)

    return top_k


def _ragged_dot(operation: Any) -> Callable[..., Any]:
    """Its precision is left out: a CPU has only one.

    The program carries a decomposition of its own, whose sums are in another order than JAX's.
    """
    import jax

    attributes = ir.DictAttr(operation.attributes["composite_attributes"])
    lists = ir.ArrayAttr(attributes["ragged_dot_dimension_numbers"])
    batch, other_batch, contracted, other_contracted, ragged, group = (
        tuple(int(n) for n in ir.DenseIntElementsAttr(numbers)) for numbers in lists
    )
    dimensions = jax.lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=((contracted, other_contracted), (batch, other_batch)),
        lhs_ragged_dimensions=ragged,
        rhs_group_dimensions=group,
    )
    result = _array_like(operation.results[0].type)

    def ragged_dot(left: Any, right: Any, sizes: Any) -> Any:
        return jax.lax.ragged_dot_general(
            left, right, sizes, dimensions, preferred_element_type=result.dtype
        )

    return ragged_dot


def _empty(operation: Any) -> Callable[..., Any]:
    import jax

    kind = _array_like(operation.results[0].type)
    return lambda: (jax.numpy.zeros(kind.shape, kind.dtype),)


def _as(array: Any, like: Any) -> Any:
    """Kernels take booleans as integers and scalars as arrays of one element."""
    return array.astype(like.dtype).reshape(like.shape)


def _kernel(operation: Any) -> Callable[..., Any]:
    kernel = find_kernel(_config(operation))
    if kernel is None:
        raise NoCpuForm("a Pallas kernel that was not made in this process")
    if len(kernel.arguments) != len(operation.operands):
        raise NoCpuForm("a Pallas kernel with arguments of its own making")
    interpret = interpreter_of(kernel)
    results = [_array_like(r.type) for r in operation.results]

    def run(*arguments: Any) -> Any:
        given = [_as(x, a) for x, a in zip(arguments, kernel.arguments, strict=True)]
        return [_as(x, like) for x, like in zip(interpret(*given), results, strict=True)]

    return run


_FUNCTIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "Eigh": _eigh,
    "Qr": _qr,
    "ProductOfElementaryHouseholderReflectors": _householder,
    "LuDecomposition": _lu,
    "ApproxTopK": _approximate_top_k,
    "chlo.ragged_dot": _ragged_dot,
    "AllocateBuffer": _empty,
    "tpu_custom_call": _kernel,
}
