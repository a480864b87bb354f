# vtpu check fires.py:step --on v5e:1x1
"""The old weights stay alive until the new ones are written."""

import jax
import jax.numpy as jnp


@jax.jit
def step(params, x):
    grads = jax.grad(lambda p: jnp.square(jnp.tanh(x @ p)).mean())(params)
    return params - 0.1 * grads


args = (jax.ShapeDtypeStruct((4096, 4096), jnp.float32), jax.ShapeDtypeStruct((64, 4096), jnp.float32))
