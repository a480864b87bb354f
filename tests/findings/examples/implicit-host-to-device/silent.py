# vtpu run --on v5e:1x1 silent.py
"""The decay is in the program; the number of the step is an argument, and one number is sent before the loop."""

import jax
import jax.numpy as jnp


@jax.jit
def step(average, value, number):
    return 0.9 * (average + value), jnp.square(value).sum() + number


value = jnp.ones((256, 256))
average = value + 1.0
for number in range(8):
    average, size = step(average, value, number)
