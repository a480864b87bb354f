"""A scanned MLP that keeps every layer's activations."""

import jax
import jax.numpy as jnp


def block(x, weights):
    up, down = weights
    return x + jnp.tanh(jax.nn.gelu(x @ up)) @ down, None


def loss(weights, x):
    y, _ = jax.lax.scan(block, x, weights)
    return jnp.square(y).mean()


step = jax.jit(jax.grad(loss))
args = (
    (
        jax.ShapeDtypeStruct((8, 256, 512), jnp.bfloat16),
        jax.ShapeDtypeStruct((8, 512, 256), jnp.bfloat16),
    ),
    jax.ShapeDtypeStruct((16384, 256), jnp.bfloat16),
)
