# vtpu run --on v5e:1x1 fires.py
"""A lambda is jitted in the loop: every iteration compiles the same program."""

import jax
import jax.numpy as jnp

weights = jnp.ones(256)
for number in range(6):
    weights = jax.jit(lambda w: w - 0.1 * jnp.tanh(w))(weights)
