# vtpu check fires.py:step --on v5p:2x2x1
"""A blocked matrix product as a kernel, whose grid runs one place after the other on one core."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

N, BLOCK = 4096, 256


def multiply(x_ref, w_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)


@jax.jit
def step(x, w):
    return pl.pallas_call(
        multiply,
        grid=(N // BLOCK, N // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, N), lambda i, j: (i, 0)),
            pl.BlockSpec((N, BLOCK), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((N, N), jnp.bfloat16),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary", "arbitrary")),
        name="multiply",
    )(x, w)


args = (jax.ShapeDtypeStruct((N, N), jnp.bfloat16),) * 2
