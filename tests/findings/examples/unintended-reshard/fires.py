# vtpu check fires.py:step --on v5e:2x4
"""A sum is asked for in a sharding to which the partitioner knows no direct way."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

N = 384
mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
source = NamedSharding(mesh, P("y", None, "x"))
target = NamedSharding(mesh, P(None, ("x", "y"), None))


@jax.jit
def step(a, b):
    return jax.lax.with_sharding_constraint(a + b, target).sum()


args = (jax.ShapeDtypeStruct((N, N, N), jnp.float32, sharding=source),) * 2
