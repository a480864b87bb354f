# vtpu check fires.py:step --on v5e:1x1
"""A table of 32 MiB is taken from outside: it becomes a part of the program."""

import jax
import jax.numpy as jnp
import numpy as np

table = np.arange(8 << 20, dtype=np.float32).reshape(2048, 4096)


@jax.jit
def step(x):
    return jnp.sum(x * table)


args = (jax.ShapeDtypeStruct((2048, 4096), jnp.float32),)
