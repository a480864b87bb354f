"""Loops and branches whose course depends on data."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def collatz(n):
    def body(carry):
        n, steps = carry
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return jax.lax.while_loop(lambda c: c[0] != 1, body, (n, 0))[1]


@jax.jit
def root(a):
    return jax.lax.while_loop(
        lambda x: jnp.abs(x * x - a) > 1e-5 * a, lambda x: 0.5 * (x + a / x), a
    )


print([int(collatz(n)) for n in (1, 6, 7, 27)])
print(float(root(2.0)), float(root(12345.0)))
print(jax.jit(lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x))(2, 0.5))
print(np.asarray(jax.vmap(collatz)(jnp.arange(1, 8))))
while (x := jnp.float32(np.random.default_rng(0).random())) < 0.5:
    pass
print(x)
