# vtpu run --on v5e:1x1 silent.py
"""As many blocks go, but neighbours: the holes join."""

import jax.numpy as jnp

blocks = [jnp.full((1024, 262144), float(i)) for i in range(15)]
del blocks[:7]
large = jnp.zeros((2048, 262144))
print(len(blocks), large.shape)
