"""Programs that call the host: `jax.debug.print`, `io_callback` in order, `pure_callback`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

STEPS = 3
heard = []


def hear(number, norm):
    heard.append((int(number), np.shape(norm)))
    return np.int32(len(heard))


def table_on_host(indices):
    return np.take(np.arange(1000, dtype=np.float32), np.asarray(indices))


@jax.jit
def step(x, number):
    jax.debug.print("in step: sum {}", x.sum())
    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    looked_up = jax.pure_callback(table_on_host, shape, jnp.arange(8))
    count = io_callback(hear, jax.ShapeDtypeStruct((), jnp.int32), number, x, ordered=True)
    return x * 0.5 + looked_up, count


x = jnp.ones((8,))
for number in range(STEPS):
    x, count = step(x, number)
jax.effects_barrier()
print("heard", len(heard), "times, shape", heard[-1][1], "result", x.shape)
