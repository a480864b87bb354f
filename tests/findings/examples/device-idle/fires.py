# vtpu run fires.py --on v5e:1x1
"""The loss is read in every step: while the host then makes the next batch, the device is idle."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

TEXT = "a few words of a corpus " * 40_000


@partial(jax.jit, donate_argnames="w")
def step(w, lengths):
    x = jnp.broadcast_to(lengths, w.shape).astype(w.dtype)
    x, _ = jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=8)
    return w + x, x.mean()


w = jnp.zeros((8192, 8192), jnp.bfloat16)
losses = []
for i in range(6):
    lengths = np.array([len(word) for word in TEXT.split()][:8192], np.int32)
    w, loss = step(w, lengths)
    losses.append(float(loss))
