# vtpu run --on v5e:1x1 silent.py
"""The remainder of each epoch is dropped."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(weights, batch):
    return weights + jnp.tanh(batch * weights).mean(0)


examples = np.random.default_rng(0).normal(size=(1000, 256)).astype(np.float32)
weights = jnp.zeros(256)
for epoch in range(2):
    for start in range(0, len(examples) - 127, 128):
        weights = step(weights, examples[start : start + 128])
