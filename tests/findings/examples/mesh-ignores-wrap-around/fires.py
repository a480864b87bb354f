# vtpu check fires.py:step --on v5e:8x16
"""A mesh in the order of `jax.devices()`, which goes host by host and not along the rings of the torus."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROWS, WIDTH = 32768, 8192
mesh = Mesh(np.array(jax.devices()).reshape(16, 8), ("data", "model"))


@jax.jit
def step(x, w):
    gradient = x.T @ jnp.tanh(x @ w)
    return w - 0.1 * gradient


args = (
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, P("data"))),
    jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, P(None, "model"))),
)
