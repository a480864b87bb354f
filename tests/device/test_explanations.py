"""JAX's explanations of why it traces again are listened to, and cannot end a program."""

from __future__ import annotations

from running import Bench


def test_a_comparison_that_fails_within_jax_does_not_end_the_program(bench: Bench) -> None:
    run = bench.run("""
import jax, jax.numpy as jnp
from jax._src.interpreters import partial_eval

def broken(*_):
    raise ValueError("broken")

partial_eval.diff_trees = broken
jax.devices()
f = jax.jit(lambda x: x + 1)
print(float(f(1.0)), f(jnp.ones(3)).shape)
""")
    run.succeeded("2.0 (3,)\n")
