# vtpu run --on v5e:1x1 fires.py
"""Every second block goes: more than 7 GiB are free, but no piece is larger than 1 GiB."""

import jax.numpy as jnp

blocks = [jnp.full((1024, 262144), float(i)) for i in range(15)]
del blocks[1::2]
large = jnp.zeros((2048, 262144))
print(len(blocks), large.shape)
