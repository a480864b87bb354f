# vtpu run --on v5e:1x1 fires.py
"""64-bit numbers are switched on after the step was compiled."""

import jax
import jax.numpy as jnp


@jax.jit
def step(weights, batch):
    return weights + jnp.tanh(batch * weights).mean(0)


weights = jnp.zeros(256, jnp.float32)
batch = jnp.ones((128, 256), jnp.float32)
weights = step(weights, batch)
jax.config.update("jax_enable_x64", True)
for number in range(4):
    weights = step(weights, batch)
