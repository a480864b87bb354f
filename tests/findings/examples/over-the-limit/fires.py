# vtpu check fires.py:step --on v5e:1x1
"""Table, gradient and result take 18 GiB; a v5e has 15.75 GiB."""

import jax
import jax.numpy as jnp


@jax.jit
def step(table, gradient):
    return table - 0.1 * gradient


array = jax.ShapeDtypeStruct((12 * 1024, 128 * 1024), jnp.float32)  # 6 GiB
args = (array, array)
