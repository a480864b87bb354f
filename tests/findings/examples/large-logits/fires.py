# vtpu check fires.py:step --on v5e:1x1
"""The loss keeps the logits of all 4,096 tokens over 32,768 words."""

import jax
import jax.numpy as jnp


def loss(head, hidden, labels):
    logits = hidden @ head
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return (jax.nn.logsumexp(logits.astype(jnp.float32), axis=1) - picked).mean()


step = jax.jit(jax.grad(loss, argnums=(0, 1)))
args = (
    jax.ShapeDtypeStruct((256, 32_768), jnp.bfloat16),
    jax.ShapeDtypeStruct((4096, 256), jnp.bfloat16),
    jax.ShapeDtypeStruct((4096,), jnp.int32),
)
