# vtpu check silent.py:step --on v5e:1x1
"""Table and gradient take 15 GiB of 15.75 GiB: 5 % are left."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames="table")
def step(table, gradient):
    return table - 0.1 * gradient


array = jax.ShapeDtypeStruct((15 * 1024, 128 * 1024), jnp.float32)  # 7.5 GiB
args = (array, array)
