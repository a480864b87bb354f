"""Fits a two-layer perceptron with plain `jit`, `grad` and SGD. The step donates its parameters."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS, ROWS, WIDTH, HIDDEN = 6, 1024, 256, 512


def init(key):
    up, down = jax.random.split(key)
    return {
        "up": jax.random.normal(up, (WIDTH, HIDDEN)) * WIDTH**-0.5,
        "down": jax.random.normal(down, (HIDDEN, 1)) * HIDDEN**-0.5,
    }


def loss(params, x, y):
    predicted = jnp.tanh(x @ params["up"]) @ params["down"]
    return jnp.mean(jnp.square(predicted - y))


@partial(jax.jit, donate_argnums=0)
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def main():
    rng = np.random.default_rng(0)
    params = jax.jit(init)(jax.random.key(0))
    for number in range(STEPS):
        x = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
        y = x.sum(axis=1, keepdims=True)
        params, value = step(params, x, y)
        if number % 3 == 2:
            print(f"step {number + 1} loss {float(value):.3f}")


main()
