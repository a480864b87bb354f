# vtpu check silent.py:predict --on v5e:2x4
"""The batch arrives whole, but the program gives each device its rows to compute."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data", None))


@jax.jit
def predict(weights, x):
    x = jax.lax.with_sharding_constraint(x, rows)
    return jax.nn.relu(x @ weights).sum(axis=1)


args = (
    jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16, sharding=whole),
    jax.ShapeDtypeStruct((16384, 4096), jnp.bfloat16, sharding=whole),
)
