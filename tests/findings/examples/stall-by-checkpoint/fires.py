# vtpu run --on v5e:1x1 fires.py
"""Every eighth step waits until the weights are on the host."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(weights, batch):
    return weights + jnp.tanh(batch @ weights)[: weights.shape[0]] * 1e-3


weights = jnp.ones((2048, 2048))
batch = jnp.ones((8192, 2048))
for number in range(24):
    weights = step(weights, batch)
    if number % 8 == 7:
        checkpoint = np.asarray(weights)
