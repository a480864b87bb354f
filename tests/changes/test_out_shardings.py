"""A result that comes back whole is spread as what it replaces."""

from __future__ import annotations

from pathlib import Path

from changes.trials import tried
from vtpu.changes.proposals.out_shardings import PROPOSAL

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
rows = NamedSharding(mesh, P("x", None))
whole = NamedSharding(mesh, P())

def update(state, x):
    return state * 0.5 + x, x.sum()

step = jax.jit(update, donate_argnums=0, out_shardings=(whole, None))
args = (jax.ShapeDtypeStruct((2048, 2048), jnp.float32, sharding=rows), jax.ShapeDtypeStruct((2048,), jnp.float32, sharding=whole))
"""


def test_the_argument_s_sharding_is_found_in_the_file(tmp_path: Path) -> None:
    with tried(PROGRAM, tmp_path, "v5e:2x4", function="step") as trials:
        named, free = trials.proposed(PROPOSAL)
        after = trials.measured(named).peak_bytes or 0
        assert "out_shardings=(rows, None)" in trials.text([named])
        assert "out_shardings=(None, None)" in trials.text([free])
    assert after < 0.3 * (trials.before.peak_bytes or 0)


def test_a_state_that_comes_back_as_it_went_in_is_left_alone(tmp_path: Path) -> None:
    text = PROGRAM.replace("(whole, None)", "(rows, None)")
    with tried(text, tmp_path, "v5e:2x4", function="step") as trials:
        assert trials.proposed(PROPOSAL) == []
        assert "no result comes back in larger pieces" in trials.refused(PROPOSAL)
