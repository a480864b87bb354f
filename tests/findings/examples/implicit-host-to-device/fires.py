# vtpu run --on v5e:1x1 fires.py
"""Outside jit every number of the decay is sent to the device again in each step."""

import jax
import jax.numpy as jnp


@jax.jit
def step(average, value):
    return average + value, jnp.square(value).sum()


average = value = jnp.ones((256, 256))
for number in range(8):
    average, size = step(average, value)
    average = average * 0.9
