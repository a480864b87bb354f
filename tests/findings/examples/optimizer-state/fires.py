# vtpu check fires.py:step --on v5e:1x1
"""Two moments in float32 beside 4 GiB of parameters fill most of the chip."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnames=("params", "opt_state"))
def step(params, opt_state, x):
    grads = jax.grad(lambda p: jnp.square(x @ p).mean())(params)
    mu = 0.9 * opt_state["mu"] + 0.1 * grads
    nu = 0.99 * opt_state["nu"] + 0.01 * jnp.square(grads)
    return params - 1e-3 * mu / (jnp.sqrt(nu) + 1e-8), {"mu": mu, "nu": nu}


array = jax.ShapeDtypeStruct((65536, 16384), jnp.float32)
args = (array, {"mu": array, "nu": array}, jax.ShapeDtypeStruct((64, 65536), jnp.float32))
