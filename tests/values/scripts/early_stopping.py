"""Stops when the error on points that were not trained on has not fallen for three rounds."""

import jax
import jax.numpy as jnp

x = jnp.linspace(-1, 1, 40)
y = jnp.sin(3 * x) + 0.3 * jax.random.normal(jax.random.key(0), x.shape)
features = x[:, None] ** jnp.arange(12)
train, held_out = slice(0, None, 2), slice(1, None, 2)


def error(w, part):
    return jnp.mean((features[part] @ w - y[part]) ** 2)


@jax.jit
def epoch(w):
    return jax.lax.fori_loop(0, 50, lambda _, w: w - 0.3 * jax.grad(error)(w, train), w)


w, best, waited, rounds = jnp.zeros(12), float("inf"), 0, 0
while waited < 3 and rounds < 200:
    w = epoch(w)
    rounds += 1
    now = error(w, held_out)
    waited = 0 if now < best * 0.999 else waited + 1
    best = min(best, float(now))
print(rounds, f"{best:.5f}")
