# vtpu check fires.py:step --on v5e:1x1
"""The momentum lives in the host's memory, and a step computes too little to cover its way."""

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

N, ROWS = 8192, 8192
device = jax.devices()[0]
hbm = SingleDeviceSharding(device, memory_kind="device")
host = SingleDeviceSharding(device, memory_kind="pinned_host")


def loss(w, x):
    for _ in range(2):
        x = jnp.tanh(x @ w)
    return x.mean(dtype=jnp.float32)


def update(w, momentum, x):
    momentum = 0.9 * jax.device_put(momentum, hbm) + jax.grad(loss)(w, x)
    return w - 0.1 * momentum, jax.device_put(momentum, host)


step = jax.jit(update, donate_argnums=(0, 1), out_shardings=(hbm, host))
args = (
    jax.ShapeDtypeStruct((N, N), jnp.bfloat16, sharding=hbm),
    jax.ShapeDtypeStruct((N, N), jnp.bfloat16, sharding=host),
    jax.ShapeDtypeStruct((ROWS, N), jnp.bfloat16, sharding=hbm),
)
