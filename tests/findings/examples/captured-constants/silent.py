# vtpu check silent.py:step --on v5e:1x1
"""The table is an argument; what is captured are the few numbers that scale it."""

import jax
import jax.numpy as jnp
import numpy as np

scale = np.arange(4096, dtype=np.float32)


@jax.jit
def step(x, table):
    return jnp.sum(x * table * scale)


args = (
    jax.ShapeDtypeStruct((2048, 4096), jnp.float32),
    jax.ShapeDtypeStruct((2048, 4096), jnp.float32),
)
