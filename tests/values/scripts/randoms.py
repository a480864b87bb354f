"""Random numbers of many kinds."""

import jax
import jax.numpy as jnp

keys = iter(jax.random.split(jax.random.key(7), 20))
print(jax.random.normal(next(keys), (3,)), jax.random.uniform(next(keys)))
print(jax.random.permutation(next(keys), 6), jax.random.choice(next(keys), 5, (3,), replace=False))
print(jax.random.bernoulli(next(keys), 0.3, (6,)), jax.random.randint(next(keys), (4,), 0, 100))
print(jax.random.gamma(next(keys), 2.0, (2,)), jax.random.poisson(next(keys), 4.0, (4,)))
print(jax.random.key_data(next(keys)), jax.random.bits(next(keys), (2,), jnp.uint8))
print(jnp.sort(jax.random.normal(next(keys), (5,), jnp.bfloat16)), jax.random.PRNGKey(3))
