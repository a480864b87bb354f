# vtpu check silent.py:step --on v5e:1x1
"""The same products at the default precision: one pass in bfloat16, summed in float32."""

import jax
import jax.numpy as jnp

ROWS, WIDTH, HIDDEN = 4096, 8192, 2048


@jax.jit
def step(x, w):
    return jnp.tanh(jnp.dot(x, w))


args = (
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32),
    jax.ShapeDtypeStruct((WIDTH, HIDDEN), jnp.float32),
)
