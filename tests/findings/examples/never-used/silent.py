# vtpu run --on v5e:1x1 silent.py
"""The weights in float32 are updated every tenth step, and so of use."""

import functools

import jax
import jax.numpy as jnp

full = jnp.ones((4096, 2048), jnp.float32)
weights = full.astype(jnp.bfloat16)


@jax.jit
def step(x, weights):
    return jnp.tanh(x @ weights @ weights.T)


@functools.partial(jax.jit, donate_argnames="full")
def update(full):
    return 0.9 * full


x = jnp.ones((64, 4096), jnp.bfloat16)
for i in range(40):
    x = step(x, weights)
    if i % 10 == 9:
        full = update(full)
        weights = full.astype(jnp.bfloat16)
print(full.shape, x.shape)
