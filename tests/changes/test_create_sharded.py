"""Arrays are made where they belong."""

from __future__ import annotations

import pytest

from changes.trying import refused, tried
from running import Bench
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.create_sharded import PROPOSAL

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
place = NamedSharding(mesh, P("data"))


def init(key, rows):
    return {"w": jax.random.normal(key, (rows, 1024)), "b": jnp.zeros((rows,))}


"""
FOUND = {
    "zeros": (
        "x = jax.device_put(jnp.zeros((8192, 1024), jnp.float32), place)\n",
        "x = jnp.zeros((8192, 1024), jnp.float32, device=place)\n",
    ),
    "zeros in two steps": (
        "x = jnp.full((8192, 1024), 2.0)\ny = 1\nx = jax.device_put(x, place)\n",
        "x = jnp.full((8192, 1024), 2.0, device=place)\ny = 1\nx = jax.device_put(x, place)\n",
    ),
    "a tree": (
        "x = jax.device_put(init(jax.random.key(0), rows=8192), place)\n",
        "x = jax.jit(lambda: init(jax.random.key(0), rows=8192), out_shardings=place)()\n",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_an_array_is_made_in_place(bench: Bench, case: str) -> None:
    text, expected = FOUND[case]
    done = tried(
        bench, PROPOSAL, HEAD + text + "print(jax.tree.leaves(x)[0].sharding)\n", on="v5e:2x2"
    )
    assert expected in done.text
    assert (done.change.numerics is Numerics.IDENTICAL) == ("zeros" in case)
    assert done.after.summary.hbm[0].peak_bytes < done.before.summary.hbm[0].peak_bytes / 2
    assert done.after.printed == done.before.printed


def test_what_is_used_before_it_is_spread_is_left(bench: Bench) -> None:
    text = "x = jnp.zeros((8192, 1024))\nprint(x.sum())\nx = jax.device_put(x, place)\n"
    assert "make it by `jax.jit(make" in refused(bench, PROPOSAL, HEAD + text, on="v5e:2x2")
