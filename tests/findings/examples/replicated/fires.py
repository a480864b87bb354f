# vtpu check fires.py:step --on v5e:2x4
"""Data-parallel training: every device holds all parameters and all momentum."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data", None))


@functools.partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, x):
    grads = jax.grad(lambda p: jnp.square(x @ p).mean())(params)
    momentum = 0.9 * momentum + grads
    return params - 0.1 * momentum, momentum


state = jax.ShapeDtypeStruct((16384, 16384), jnp.float32, sharding=whole)
batch = jax.ShapeDtypeStruct((512, 16384), jnp.float32, sharding=rows)
args = (state, state, batch)
