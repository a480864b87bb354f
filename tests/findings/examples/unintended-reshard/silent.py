# vtpu check silent.py:step --on v5e:2x4
"""The same, where one axis of the mesh moves from one dimension to another: one exchange does it."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

N = 384
mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
source = NamedSharding(mesh, P("y", None, "x"))
target = NamedSharding(mesh, P("y", "x", None))


@jax.jit
def step(a, b):
    return jax.lax.with_sharding_constraint(a + b, target).sum()


args = (jax.ShapeDtypeStruct((N, N, N), jnp.float32, sharding=source),) * 2
