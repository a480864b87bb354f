# vtpu check silent.py:step --on v5e:2x4
"""The state goes out as it came in and takes the same memory; only the sum is whole."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data", None))


@functools.partial(jax.jit, donate_argnames="state", out_shardings=(rows, whole))
def step(state):
    return state * 0.5, jnp.square(state).sum()


args = (jax.ShapeDtypeStruct((8192, 4096), jnp.float32, sharding=rows),)
