# vtpu run --on v5e:1x1 fires.py
"""The step compiles for an empty chip; beside the cache its temporaries find no room."""

import jax
import jax.numpy as jnp


@jax.jit
def step(x, up, down):
    return jax.nn.gelu(x @ up) @ down


cache = jnp.zeros((24, 256, 1024, 1024), jnp.bfloat16)
x = jnp.ones((65536, 1024), jnp.bfloat16)
up, down = jnp.ones((1024, 32768), jnp.bfloat16), jnp.ones((32768, 2048), jnp.bfloat16)
print(step(x, up, down).shape, cache.shape)
