# vtpu run --on v5e:1x1 silent.py
"""Whether it trains is static: one program for training, one for evaluation. The number is an argument."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="train")
def step(weights, batch, number, train):
    hidden = jnp.tanh(batch * weights).mean(0)
    return weights - hidden / (number + 1) if train else hidden


weights = jnp.ones(256)
batch = jnp.ones((128, 256))
for number in range(6):
    weights = step(weights, batch, number, train=True)
evaluation = step(weights, batch, 0, train=False)
