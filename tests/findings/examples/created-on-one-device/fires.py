# vtpu run --on v5e:2x4 fires.py
"""4 GiB are made on the first device, cut there, and copied to the other seven."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
rows = NamedSharding(mesh, P("data", None))

table = jax.device_put(jnp.zeros((65536, 16384)), rows)
print(table.sharding.spec)
