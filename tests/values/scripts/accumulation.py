"""Gradients of small batches, added up before each update."""

import jax
import jax.numpy as jnp
import numpy as np

x = np.random.default_rng(1).normal(size=(8, 4, 16, 8)).astype(np.float32)


def loss(w, batch):
    return jnp.mean(jnp.square(batch @ w - batch.sum(-1, keepdims=True)))


@jax.jit
def update(w, batches):
    def add(total, batch):
        value, grad = jax.value_and_grad(loss)(w, batch)
        return (total[0] + value, total[1] + grad), None

    (value, grad), _ = jax.lax.scan(add, (0.0, jnp.zeros_like(w)), batches)
    return w - 0.1 * grad / len(batches), value / len(batches)


w = jnp.zeros((8, 1))
for batches in x:
    w, value = update(w, batches)
    print(f"{value:.6f}")
print(np.asarray(w)[:, 0].round(5))
