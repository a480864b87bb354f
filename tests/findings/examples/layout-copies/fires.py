# vtpu check fires.py:step --on v5e:1x1
"""A cache is kept by position, then by head; a step wants it by head, and turns all of it around."""

import jax
import jax.numpy as jnp

BATCH, LENGTH, HEADS, SIZE = 8, 4096, 16, 128


@jax.jit
def step(query, cache):
    by_head = cache.transpose(0, 2, 1, 3)
    return jax.nn.softmax(query @ by_head.swapaxes(2, 3)) @ by_head


args = (
    jax.ShapeDtypeStruct((BATCH, HEADS, SIZE, SIZE), jnp.bfloat16),
    jax.ShapeDtypeStruct((BATCH, LENGTH, HEADS, SIZE), jnp.bfloat16),
)
