# vtpu check silent.py:step --on v5e:8x16
"""A mesh that JAX makes: its axis of 16 closes the rings of the torus."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

ROWS, WIDTH = 32768, 8192
mesh = jax.make_mesh((16, 8), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


@jax.jit
def step(x, w):
    gradient = x.T @ jnp.tanh(x @ w)
    return w - 0.1 * gradient


args = (
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, P("data"))),
    jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, P(None, "model"))),
)
