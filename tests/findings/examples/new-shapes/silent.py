# vtpu run --on v5e:1x1 silent.py
"""Training and evaluation call the loss with batches of their own size: two programs are meant."""

import jax
import jax.numpy as jnp


@jax.jit
def loss(weights, batch):
    return jnp.square(jnp.tanh(batch * weights)).mean()


weights = jnp.ones(256)
batch, held_out = jnp.ones((128, 256)), jnp.ones((200, 256))
for number in range(6):
    training = loss(weights, batch)
    if number % 3 == 2:
        evaluation = loss(weights, held_out)
