"""A simulation of 200 steps that is differentiated through."""

import jax
import jax.numpy as jnp


def move(state, force):
    return jnp.sin(state * 1.01) + force, state.mean()


def loss(p, x, forces):
    state, means = jax.lax.scan(move, x * p, forces)
    return state.sum() + means.sum()


step = jax.jit(jax.grad(loss))
args = (
    jax.ShapeDtypeStruct((), jnp.float32),
    jax.ShapeDtypeStruct((4096, 128), jnp.float32),
    jax.ShapeDtypeStruct((200,), jnp.float32),
)
