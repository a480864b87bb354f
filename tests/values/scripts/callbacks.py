"""The host is called with the program's numbers: in loops, in branches, in order."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

log = []


@jax.jit
def run(n, x):
    def body(i, x):
        jax.debug.print("at {i}: {x}", i=i, x=x, ordered=True)
        x = x + jax.pure_callback(
            lambda v: np.float32(v * 0.5), jax.ShapeDtypeStruct((), x.dtype), x
        )
        jax.lax.cond(
            x > 4, lambda: jax.debug.callback(lambda v: log.append(float(v)), x), lambda: None
        )
        return io_callback(
            lambda v: np.float32(v + 1), jax.ShapeDtypeStruct((), x.dtype), x, ordered=True
        )

    return jax.lax.fori_loop(0, n, body, x)


result = run(4, 1.0)
jax.effects_barrier()
print(result, log)
try:
    jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(lambda v: 1 / 0, x, x))(jnp.ones(2)))
except Exception as error:
    print("ZeroDivisionError" in str(error))
