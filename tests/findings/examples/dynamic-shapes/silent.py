# vtpu run --on v5e:1x1 silent.py
"""Prompts are padded to one of two lengths, and what is padded is masked."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def encode(table, tokens):
    known = (tokens >= 0)[:, None]
    return jnp.where(known, jnp.tanh(table[tokens]), 0).sum(0) / known.sum()


generator = np.random.default_rng(0)
table = jnp.ones((1000, 256))
for length in (97, 310, 145, 388, 205, 97, 260, 145):
    padded = np.full(256 if length <= 256 else 512, -1, np.int32)
    padded[:length] = generator.integers(0, 1000, length, np.int32)
    code = encode(table, padded)
