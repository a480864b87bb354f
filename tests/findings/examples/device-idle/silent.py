# vtpu run silent.py --on v5e:1x1
"""The same batches, but a loss is read when the next step is on its way: the device has work ahead."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

TEXT = "a few words of a corpus " * 40_000


@partial(jax.jit, donate_argnames="w")
def step(w, lengths):
    x = jnp.broadcast_to(lengths, w.shape).astype(w.dtype)
    x, _ = jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=32)
    return w + x, x.mean()


w = jnp.zeros((8192, 8192), jnp.bfloat16)
losses, before = [], None
for i in range(6):
    lengths = np.array([len(word) for word in TEXT.split()][:8192], np.int32)
    w, loss = step(w, lengths)
    if before is not None:
        losses.append(float(before))
    before = loss
