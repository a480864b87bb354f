# vtpu check fires.py:step --on v5e:1x1
"""The state comes in as float32 and leaves as bfloat16: JAX says nothing, and nothing is reused."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames="state")
def step(state, update):
    return (0.9 * state + update).astype(jnp.bfloat16)


args = (
    jax.ShapeDtypeStruct((4096, 8192), jnp.float32),
    jax.ShapeDtypeStruct((4096, 8192), jnp.bfloat16),
)
