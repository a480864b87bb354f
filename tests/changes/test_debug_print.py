"""What is printed of large arrays."""

from __future__ import annotations

from changes.trying import edited, proposed, refused, situation_of
from running import Bench
from vtpu.changes.proposals.debug_print import PROPOSAL

PRINTS = """
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

place = NamedSharding(jax.make_mesh((4,), ("data",)), P("data", None))


@jax.jit
def step(x):
    y = jnp.sin(x)
    jax.debug.print("activations {} {y}", y, y=y * 2)
    return y.sum()


x = jnp.ones((512, 256), device=place)
print(step(x))
"""
CALLS = """
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x).sum()


print(step(jnp.ones((512, 256))))
"""


def test_the_mean_is_printed_or_nothing(bench: Bench) -> None:
    before = bench.run(PRINTS, on="v5e:2x2")
    changes, reasons = proposed(PROPOSAL, situation_of(bench, before))
    assert not reasons
    assert len({c.group for c in changes}) == 1
    means, nothing = [edited(PRINTS, c.edits) for c in changes]
    assert '{y}", jnp.mean(y), y=jnp.mean(y * 2))' in means
    assert "debug.print" not in nothing
    temps = [
        bench.run(text, on="v5e:2x2").program("jit_step").temp_bytes for text in (means, nothing)
    ]
    assert max(temps) < before.program("jit_step").temp_bytes / 4


def test_a_callback_that_computes_is_left(bench: Bench) -> None:
    why = refused(bench, PROPOSAL, CALLS)
    assert "prog.py:9 calls the host (pure_callback)" in why
