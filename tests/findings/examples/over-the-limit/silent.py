# vtpu check silent.py:step --on v5e:1x1
"""The result takes the memory of the table: 12 GiB of 15.75 GiB."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames="table")
def step(table, gradient):
    return table - 0.1 * gradient


array = jax.ShapeDtypeStruct((12 * 1024, 128 * 1024), jnp.float32)  # 6 GiB
args = (array, array)
