# vtpu run --on v5e:2x4 silent.py
"""Each device makes its own part; what the host has is spread from there."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
rows = NamedSharding(mesh, P("data", None))

table = jnp.zeros((65536, 16384), device=rows)
images = jax.device_put(np.ones((8192, 2048), np.float32), rows)
print(table.sharding.spec, images.sharding.spec)
