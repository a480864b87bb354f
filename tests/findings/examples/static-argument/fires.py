# vtpu run --on v5e:1x1 fires.py
"""The number of the step is static, so every step is compiled."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="number")
def step(weights, batch, number):
    return weights - jnp.tanh(batch * weights).mean(0) / (number + 1)


weights = jnp.ones(256)
batch = jnp.ones((128, 256))
for number in range(6):
    weights = step(weights, batch, number=number)
