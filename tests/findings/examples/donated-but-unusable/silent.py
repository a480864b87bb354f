# vtpu check silent.py:step --on v5e:1x1
"""The state leaves as it came in, and takes its own memory."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames="state")
def step(state, update):
    return 0.9 * state + update


args = (
    jax.ShapeDtypeStruct((4096, 8192), jnp.float32),
    jax.ShapeDtypeStruct((4096, 8192), jnp.bfloat16),
)
