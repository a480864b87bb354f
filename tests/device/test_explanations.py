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


def test_static_arguments_that_differ_are_named(bench: Bench) -> None:
    run = bench.run("""
from functools import partial
import jax, jax.numpy as jnp
f = jax.jit(lambda x, n: x * n, static_argnums=1)
g = partial(jax.jit, static_argnames="mode")(lambda x, mode: x + len(mode))
x = jnp.ones(3)
f(x, 2), f(x, 3), g(x, mode="a"), g(x, mode="ab")
""")
    run.succeeded()
    reasons = [p.reason or "" for p in run.recording.programs if p.name == "jit__lambda"]
    assert "[0][1], now" in reasons[1]
    assert "3" in reasons[1]
    assert "[1]['mode'], now" in reasons[3]
    assert "'ab'" in reasons[3]
