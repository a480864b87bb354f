# vtpu run --on v5e:2x4 silent.py
"""The mean is a result of the step, and Python prints it after the loop."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
over_data = NamedSharding(mesh, PartitionSpec("data"))


@jax.jit
def step(weights, batch):
    hidden = jnp.tanh(batch * weights)
    return weights + hidden.mean(0), hidden.mean()


weights = jnp.zeros(256)
batch = jax.device_put(jnp.ones((4096, 256)), over_data)
for number in range(4):
    weights, mean = step(weights, batch)
print("hidden", mean)
