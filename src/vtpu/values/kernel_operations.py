"""Operations of TPU kernels that JAX's interpreter lacks, out of operations that any backend has."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def complete_interpreter() -> None:
    """Gives JAX's CPU backend the operations below. They had no form there."""
    from jax._src.interpreters import mlir
    from jax._src.pallas.mosaic import primitives

    for primitive, function in (
        (primitives.pack_elementwise_p, _pack),
        (primitives.unpack_elementwise_p, _unpack),
        (primitives.stochastic_round_p, _round_stochastically),
    ):
        rule = mlir.lower_fun(function, multiple_results=False)
        mlir.register_lowering(primitive, rule, platform="cpu")


def _bits(dtype: Any) -> int:
    from jax import dtypes

    return dtypes.itemsize_bits(dtype)


def _unsigned(bits: int) -> str:
    return f"uint{bits}"


def _pack(*arrays: Any, packed_dtype: Any) -> Any:
    """The low bits of each array, the first in the lowest."""
    import jax.numpy as jnp
    from jax import lax

    size, out = _bits(packed_dtype), None
    word = _unsigned(_bits(arrays[0].dtype))
    for place, array in enumerate(arrays):
        if jnp.issubdtype(array.dtype, jnp.floating):
            part = lax.bitcast_convert_type(array.astype(packed_dtype), _unsigned(size))
            part = part.astype(word)
        else:
            part = lax.bitcast_convert_type(array, word) & ((1 << size) - 1)
        part = part << (place * size)
        out = part if out is None else out | part
    return out


def _unpack(array: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
    """The part with a number, widened by its own sign."""
    import jax.numpy as jnp
    from jax import lax

    size, whole = _bits(packed_dtype), _bits(array.dtype)
    word = lax.bitcast_convert_type(array, _unsigned(whole))
    if jnp.issubdtype(packed_dtype, jnp.floating):
        part = (word >> (index * size)).astype(_unsigned(size))
        return lax.bitcast_convert_type(part, packed_dtype).astype(unpacked_dtype)
    at_the_top = word << (whole - (index + 1) * size)
    if jnp.issubdtype(packed_dtype, jnp.signedinteger):
        at_the_top = lax.bitcast_convert_type(at_the_top, f"int{whole}")
    return (at_the_top >> (whole - size)).astype(unpacked_dtype)


def _round_stochastically(array: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    """Up or down, the nearer the likelier: random bits are added below the last that is kept."""
    import jax.numpy as jnp
    from jax import lax

    below = jnp.finfo(array.dtype).nmant - jnp.finfo(target_dtype).nmant
    bits = lax.bitcast_convert_type(array, jnp.uint32)
    mask = jnp.uint32((1 << below) - 1)
    rounded = lax.bitcast_convert_type((bits + (random_bits & mask)) & ~mask, array.dtype)
    return jnp.where(jnp.isfinite(array), rounded, array).astype(target_dtype)
