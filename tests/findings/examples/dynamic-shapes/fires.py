# vtpu run --on v5e:1x1 fires.py
"""Every prompt is encoded at its own length, and each length is a program."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def encode(table, tokens):
    return jnp.tanh(table[tokens]).mean(0)


generator = np.random.default_rng(0)
table = jnp.ones((1000, 256))
for length in (97, 310, 145, 388, 205, 97, 260, 145):
    code = encode(table, generator.integers(0, 1000, length, np.int32))
