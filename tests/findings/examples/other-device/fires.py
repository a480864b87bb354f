# vtpu run --on v5e:2x4 fires.py
"""The table was made on device 0: every step copies it to the seven others."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
over_data, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())


@jax.jit
def step(weights, batch, table):
    return weights + jnp.tanh(batch + table).mean(0)


table = jnp.ones((1024, 256))
weights = jnp.zeros(256, device=everywhere)
batch = jnp.ones((1024, 256), device=over_data)
for number in range(6):
    weights = step(weights, batch, table)
