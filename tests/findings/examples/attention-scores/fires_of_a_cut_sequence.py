# vtpu check fires_of_a_cut_sequence.py:step --on v5e:2x4
"""Eight chips have 1,024 of 8,192 queries each, and hold their scores with all keys."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("sequence",))


def attend(tokens, weights):
    q, k, v = jnp.split(tokens @ weights, 3, axis=-1)
    q, k, v = (a.reshape(-1, 4, 64).swapaxes(0, 1) for a in (q, k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * 64**-0.5
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)


step = jax.jit(attend)
args = (
    jax.ShapeDtypeStruct(
        (8192, 256), jnp.bfloat16, sharding=NamedSharding(mesh, P("sequence", None))
    ),
    jax.ShapeDtypeStruct((256, 768), jnp.bfloat16, sharding=NamedSharding(mesh, P())),
)
