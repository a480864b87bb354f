# vtpu run --on v5e:1x1 silent.py
"""JAX's variable is set before the import, the compiler's flags before the first array."""

import os

os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"

import jax
import jax.numpy as jnp

os.environ["LIBTPU_INIT_ARGS"] = "--xla_tpu_scoped_vmem_limit_kib=32768"
weights = jnp.ones((256, 256))
print(jax.jit(lambda w: w @ w)(weights).shape)
