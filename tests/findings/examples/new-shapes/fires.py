# vtpu run --on v5e:1x1 fires.py
"""The first batch comes without a mask, all others with one."""

import jax
import jax.numpy as jnp


@jax.jit
def step(weights, batch, mask=None):
    hidden = jnp.tanh(batch * weights)
    return weights + (hidden if mask is None else hidden * mask).mean(0)


weights = jnp.zeros(256)
batch = jnp.ones((128, 256))
for number in range(6):
    mask = jnp.ones((128, 1)) if number else None
    weights = step(weights, batch, mask)
