# vtpu check fires.py:predict --on v5e:2x4
"""The batch is passed as it is: all eight devices compute the same predictions."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
whole = NamedSharding(mesh, P())


@jax.jit
def predict(weights, x):
    return jax.nn.relu(x @ weights).sum(axis=1)


args = (
    jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16, sharding=whole),
    jax.ShapeDtypeStruct((16384, 4096), jnp.bfloat16, sharding=whole),
)
