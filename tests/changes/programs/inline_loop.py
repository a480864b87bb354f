"""Layers written out in the loop itself."""

import jax
import jax.numpy as jnp


def loss(layers, x):
    for i, (up, down) in enumerate(layers):
        h = jax.nn.gelu(x @ up)
        if i:
            h = jnp.tanh(h)
        x = x + h @ down
    return jnp.square(x).mean()


step = jax.jit(jax.grad(loss))
args = (
    [
        (
            jax.ShapeDtypeStruct((256, 1024), jnp.bfloat16),
            jax.ShapeDtypeStruct((1024, 256), jnp.bfloat16),
        )
    ]
    * 4,
    jax.ShapeDtypeStruct((16384, 256), jnp.bfloat16),
)
