# vtpu run --on v5e:1x1 fires.py
"""The weights in float32 stay beside those in bfloat16 that the steps use."""

import jax
import jax.numpy as jnp

full = jnp.ones((4096, 2048), jnp.float32)
weights = full.astype(jnp.bfloat16)


@jax.jit
def step(x, weights):
    return jnp.tanh(x @ weights @ weights.T)


x = jnp.ones((64, 4096), jnp.bfloat16)
for _ in range(20):
    x = step(x, weights)
print(full.shape, x.shape)
