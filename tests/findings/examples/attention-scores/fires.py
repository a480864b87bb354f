# vtpu check fires.py:step --on v5e:1x1
"""Scores of 4,096 queries with 4,096 keys for each of eight heads."""

import jax
import jax.numpy as jnp


def attend(q, k, v):
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * 64**-0.5
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)


step = jax.jit(attend)
args = tuple(jax.ShapeDtypeStruct((8, 4096, 64), jnp.bfloat16) for _ in range(3))
