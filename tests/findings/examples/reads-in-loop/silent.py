# vtpu run --on v5e:1x1 silent.py
"""The histogram is made on the device, and what is to be printed is read every ten steps."""

import jax
import jax.numpy as jnp


@jax.jit
def step(weights, batch):
    hidden = jnp.tanh(batch @ weights)
    counts, _ = jnp.histogram(hidden, bins=16)
    return weights * 0.999, counts, jnp.square(hidden).mean()


weights = jnp.ones((1024, 1024))
batch = jnp.ones((2048, 1024))
for number in range(24):
    weights, counts, loss = step(weights, batch)
    if number % 10 == 9:
        print(number, float(loss), counts)
