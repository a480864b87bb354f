# vtpu check silent.py:step --on v5e:2x4
"""Padded to 50,304 the vocabulary divides, and the embedding is split as all else."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCABULARY = 50304
mesh = Mesh(np.array(jax.devices()), ("model",))


def array(*shape):
    """Split along the first dimension where it divides, as rules for parameters do it."""
    spec = P("model", None) if shape[0] % 8 == 0 else P()
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))


@jax.jit
def step(params, tokens):
    x = params["embedding"][tokens]
    for name in ("first", "second", "third"):
        x = jnp.tanh(x @ params[name])
    return x.mean()


params = {name: array(2048, 2048) for name in ("first", "second", "third")}
tokens = jax.ShapeDtypeStruct((64,), jnp.int32, sharding=NamedSharding(mesh, P()))
args = ({"embedding": array(VOCABULARY, 2048), **params}, tokens)
