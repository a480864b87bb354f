# vtpu check silent.py:step --on v5e:1x1
"""The new weights take the memory of the old ones; the batch has no result of its shape."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames="params")
def step(params, x):
    grads = jax.grad(lambda p: jnp.square(jnp.tanh(x @ p)).mean())(params)
    return params - 0.1 * grads


args = (jax.ShapeDtypeStruct((4096, 4096), jnp.float32), jax.ShapeDtypeStruct((64, 4096), jnp.float32))
