# vtpu run --on v5e:1x1 silent.py
"""Two functions are made by one line, once, and called again and again."""

import jax
import jax.numpy as jnp


def make(scale):
    return jax.jit(lambda w: w - 0.1 * jnp.tanh(scale * w))


layers = [make(scale) for scale in (1.0, 2.0)]
weights = jnp.ones(256)
for number in range(6):
    for layer in layers:
        weights = layer(weights)
