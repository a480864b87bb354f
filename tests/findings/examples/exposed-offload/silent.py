# vtpu check silent.py:step --on v5e:1x1
"""The same in HBM, where it has room."""

import jax
import jax.numpy as jnp

N, ROWS = 8192, 8192


def loss(w, x):
    for _ in range(2):
        x = jnp.tanh(x @ w)
    return x.mean(dtype=jnp.float32)


def update(w, momentum, x):
    momentum = 0.9 * momentum + jax.grad(loss)(w, x)
    return w - 0.1 * momentum, momentum


step = jax.jit(update, donate_argnums=(0, 1))
args = (
    jax.ShapeDtypeStruct((N, N), jnp.bfloat16),
    jax.ShapeDtypeStruct((N, N), jnp.bfloat16),
    jax.ShapeDtypeStruct((ROWS, N), jnp.bfloat16),
)
