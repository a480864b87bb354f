# vtpu run --on v5e:1x1 fires.py
"""The activations of every step go to the host, and the loss is printed each time."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(weights, batch):
    hidden = jnp.tanh(batch @ weights)
    return weights * 0.999, hidden, jnp.square(hidden).mean()


weights = jnp.ones((1024, 1024))
batch = jnp.ones((2048, 1024))
largest = []
for number in range(8):
    weights, hidden, loss = step(weights, batch)
    largest.append(np.asarray(hidden)[:, 0].max())
    print(number, float(loss))
