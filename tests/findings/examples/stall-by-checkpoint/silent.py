# vtpu run --on v5e:1x1 silent.py
"""The copy is asked for, and read when the next one is due: it is there long before."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(weights, batch):
    return weights + jnp.tanh(batch @ weights)[: weights.shape[0]] * 1e-3


weights = jnp.ones((2048, 2048))
batch = jnp.ones((8192, 2048))
saved = None
for number in range(24):
    weights = step(weights, batch)
    if number % 8 == 7:
        checkpoint = None if saved is None else np.asarray(saved)
        saved = weights
        saved.copy_to_host_async()
