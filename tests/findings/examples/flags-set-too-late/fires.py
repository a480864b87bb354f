# vtpu run --on v5e:1x1 fires.py
"""The compiler's flags are set after the first array, JAX's own after it was imported."""

import os

import jax
import jax.numpy as jnp

os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
weights = jnp.ones((256, 256))
os.environ["LIBTPU_INIT_ARGS"] = "--xla_tpu_scoped_vmem_limit_kib=32768"
print(jax.jit(lambda w: w @ w)(weights).shape)
