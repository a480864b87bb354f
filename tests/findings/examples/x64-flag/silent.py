# vtpu run --on v5e:1x1 silent.py
"""64-bit numbers are switched on before anything is compiled."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


@jax.jit
def step(weights, batch):
    return weights + jnp.tanh(batch * weights).mean(0)


weights = jnp.zeros(256, jnp.float32)
batch = jnp.ones((128, 256), jnp.float32)
for number in range(5):
    weights = step(weights, batch)
