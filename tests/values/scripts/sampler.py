"""A Metropolis sampler whose step size follows the share of steps that were taken."""

import jax
import jax.numpy as jnp


def log_density(x):
    return -0.5 * jnp.sum(x**2 / jnp.array([1.0, 4.0]))


@jax.jit
def run(key, x, size):
    def step(carry, key):
        x, taken = carry
        propose, accept = jax.random.split(key)
        new = x + size * jax.random.normal(propose, x.shape)
        is_taken = jnp.log(jax.random.uniform(accept)) < log_density(new) - log_density(x)
        return (jnp.where(is_taken, new, x), taken + is_taken), x

    (x, taken), trace = jax.lax.scan(step, (x, 0), jax.random.split(key, 200))
    return x, taken / 200, trace


key, x, size = jax.random.key(3), jnp.zeros(2), 1.0
for number in range(6):
    key, now = jax.random.split(key)
    x, share, trace = run(now, x, size)
    size *= 1.3 if share > 0.44 else 0.8
    print(number, f"{float(share):.3f} {size:.4f}", trace.var(0).round(4).tolist())
