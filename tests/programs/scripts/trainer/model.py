"""The model of the training package."""

import jax
import jax.numpy as jnp


def init(width):
    return jnp.zeros((width, width))


def loss(w, x):
    return jnp.mean(jnp.square(x @ w))


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)
