# vtpu check silent.py:step --on v5e:2x4
"""Data-parallel training with parameters and momentum split over the devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
columns, rows = NamedSharding(mesh, P(None, "data")), NamedSharding(mesh, P("data", None))


@functools.partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, x):
    grads = jax.grad(lambda p: jnp.square(x @ p).mean())(params)
    momentum = 0.9 * momentum + grads
    return params - 0.1 * momentum, momentum


state = jax.ShapeDtypeStruct((16384, 16384), jnp.float32, sharding=columns)
batch = jax.ShapeDtypeStruct((512, 16384), jnp.float32, sharding=rows)
args = (state, state, batch)
