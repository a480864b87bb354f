# vtpu check fires_beside_another_table.py:step --on v5e:2x2
"""Of two tables the one with 999,999 rows is whole on each of four chips."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))


def table(rows):
    spec = P("data") if rows % 4 == 0 else P()
    return jax.ShapeDtypeStruct((rows, 128), jnp.float32, sharding=NamedSharding(mesh, spec))


def update(tables, users, items):
    return {
        "users": tables["users"].at[users].add(-0.1),
        "items": tables["items"].at[items].add(0.1),
    }


step = jax.jit(update, donate_argnums=0)
numbers = jax.ShapeDtypeStruct((1024,), jnp.int32, sharding=NamedSharding(mesh, P("data")))
args = ({"users": table(999_999), "items": table(2_000_000)}, numbers, numbers)
