# vtpu run --on v5e:1x1 silent.py
"""The update is in the step; a key is split and the loss summed up outside."""

import jax
import jax.numpy as jnp


@jax.jit
def step(weights, batch, key):
    noise = jax.random.normal(key, batch.shape)
    loss, grads = jax.value_and_grad(lambda w: jnp.square((batch + noise) @ w).mean())(weights)
    return weights - 0.01 * grads, loss


key = jax.random.key(0)
weights, batch, total = jnp.ones((256, 256)), jnp.ones((128, 256)), jnp.zeros(())
for number in range(8):
    key, own = jax.random.split(key)
    weights, loss = step(weights, batch, own)
    total = total + loss
