"""A blocked matrix product as a Pallas kernel with an accumulator in VMEM, inside a jitted layer."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

M, K, N, BLOCK = 512, 1024, 768, 256


def kernel(x_ref, w_ref, o_ref, sum_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == K // BLOCK - 1)
    def _():
        o_ref[...] = sum_ref[...].astype(o_ref.dtype)


def matmul(x, w):
    return pl.pallas_call(
        kernel,
        grid=(M // BLOCK, N // BLOCK, K // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
        name="blocked_matmul",
    )(x, w)


@jax.jit
def layer(x, w):
    return jax.nn.gelu(matmul(x, w))


x = jnp.ones((M, K), jnp.bfloat16)
w = jnp.ones((K, N), jnp.bfloat16)
for _ in range(3):
    y = layer(x, w)
print(y.shape, y.dtype, "kernel in the program:", "blocked_matmul" in layer.lower(x, w).as_text())
