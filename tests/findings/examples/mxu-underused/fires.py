# vtpu check fires.py:step --on v5e:1x1
"""Products of float32 at the highest precision go over the matrix units six times."""

import jax
import jax.numpy as jnp

ROWS, WIDTH, HIDDEN = 4096, 8192, 2048


@jax.jit
def step(x, w):
    return jnp.tanh(jnp.dot(x, w, precision="highest"))


args = (
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32),
    jax.ShapeDtypeStruct((WIDTH, HIDDEN), jnp.float32),
)
