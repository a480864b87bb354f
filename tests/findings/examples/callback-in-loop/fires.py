# vtpu run --on v5e:2x4 fires.py
"""A forgotten print: every step gathers the activations on all chips and sends them to the host."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
over_data = NamedSharding(mesh, PartitionSpec("data"))


@jax.jit
def step(weights, batch):
    hidden = jnp.tanh(batch * weights)
    jax.debug.print("hidden {}", hidden)
    return weights + hidden.mean(0)


weights = jnp.zeros(256)
batch = jax.device_put(jnp.ones((4096, 256)), over_data)
for number in range(4):
    weights = step(weights, batch)
