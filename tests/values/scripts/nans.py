"""JAX finds the operation that makes a NaN."""

import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)
f = jax.jit(lambda x: jnp.log(x) * 2)
print(f(1.0))
try:
    f(-1.0)
except FloatingPointError as error:
    print("found:", "nan" in str(error))
