# vtpu run --on v5e:1x1 fires.py
"""The gradients are jitted, the optimizer's update is not: eighteen operations in every step."""

import jax
import jax.numpy as jnp


@jax.jit
def gradients(weights, batch):
    return jax.grad(lambda w: jnp.square(batch @ w["in"] @ w["out"]).mean())(weights)


rate, decay = jnp.float32(0.01), jnp.float32(0.9)
weights = {"in": jnp.ones((256, 256)), "out": jnp.ones((256, 256))}
mean = jax.tree.map(jnp.zeros_like, weights)
square = jax.tree.map(jnp.zeros_like, weights)
batch = jnp.ones((128, 256))
for number in range(8):
    grads = gradients(weights, batch)
    for name, grad in grads.items():
        mean[name] = decay * mean[name] + grad
        square[name] = decay * square[name] + grad * grad
        weights[name] = weights[name] - rate * mean[name] / jnp.sqrt(square[name])
