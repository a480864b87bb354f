"""A number of Python's becomes an array before a loop."""

from __future__ import annotations

from changes.trying import refused, tried
from running import Bench
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.weak_type import PROPOSAL

AVERAGE = """
import jax
import jax.numpy as jnp


@jax.jit
def smooth(value, average):
    return 0.9 * average + 0.1 * value


average = 0.0
for value in jnp.arange(4.0):
    average = smooth(value, average=average)
print(average)
"""
STATE = """
import jax


@jax.jit
def count(state):
    return {"seen": state["seen"] + 1, "mean": (state["mean"] * 2).astype("bfloat16")}


state = dict(seen=0, mean=-1.5)
for i in range(3):
    state = count(state)
print(state["seen"], state["mean"])
"""


def test_a_number_becomes_an_array_of_the_later_type(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, AVERAGE)
    assert "average = jnp.float32(0.0)\n" in done.text
    assert done.change.numerics is Numerics.IDENTICAL
    assert done.before.program("jit_smooth").compiles == 2
    assert done.after.program("jit_smooth").compiles == 1
    assert done.after.printed == done.before.printed


def test_the_leaves_of_a_state_become_arrays(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, STATE)
    assert "dict(seen=0, mean=jax.numpy.bfloat16(-1.5))" in done.text
    assert done.change.numerics is Numerics.TOLERANCE
    assert done.after.program("jit_count").compiles == 1
    assert done.after.printed == done.before.printed


def test_a_number_that_is_not_seen_is_named(bench: Bench) -> None:
    hidden = AVERAGE.replace(
        "average = 0.0", "average = float(input.__name__ == 'x') if 1 else None"
    )
    assert "give average as an array of its type" in refused(bench, PROPOSAL, hidden)
