"""Options of the compiler reach it, and are proposed where they concern something."""

from __future__ import annotations

from pathlib import Path

from changes.trials import tried
from vtpu.changes.proposals.flags import PROPOSAL
from vtpu.changes.rewriting.flags import When, all_flags

SPLIT = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("t",))

def spread(shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, P(*spec)))

@jax.jit
def step(up, down, x):
    x = x + jnp.tanh(x @ up) @ down
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("t", None)))

args = (spread((4096, 16384), None, "t"), spread((16384, 4096), "t", None), spread((4096, 4096), "t", None))
"""
PIECES = """
import jax
import jax.numpy as jnp

def loss(w, x):
    for a, b in w:
        h = jax.nn.gelu(x @ a)
        x = jax.nn.softmax(h @ b + x)
    return jnp.square(x).mean()

step = jax.jit(jax.grad(loss))
sizes = [(512, 3000), (512, 1800), (512, 2500), (512, 700)]
args = (
    [(jax.ShapeDtypeStruct((a, b), jnp.float32), jax.ShapeDtypeStruct((b, a), jnp.float32)) for a, b in sizes],
    jax.ShapeDtypeStruct((8000, 512), jnp.float32),
)
"""


def test_products_in_steps_are_done_whole(tmp_path: Path) -> None:
    with tried(SPLIT, tmp_path, "v5e:2x4", function="step") as trials:
        change = trials.proposed(PROPOSAL)[0]
        after = trials.measured(change)
    text = trials.text([change])
    assert '@functools.partial(jax.jit, compiler_options={"xla_jf_spmd_threshold_' in text
    assert (after.peak_bytes, after.step_s) != (trials.before.peak_bytes, trials.before.step_s)
    assert (after.step_s or 0) < (trials.before.step_s or 0)


def test_a_heap_in_pieces_may_be_packed_by_another_algorithm(tmp_path: Path) -> None:
    with tried(PIECES, tmp_path, "v5e:2x2", function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        after = trials.measured(change)
    assert "xla_tpu_buffer_assignment_algorithm" in trials.text([change])
    assert (after.peak_bytes or 0) <= (trials.before.peak_bytes or 0)  # some releases ignore it


def test_options_that_are_there_stay(tmp_path: Path) -> None:
    options = 'jax.jit, compiler_options={"xla_tpu_enable_async_collective_fusion": False}'
    text = SPLIT.replace("@jax.jit", f"@functools.partial({options})").replace(
        "import jax\n", "import functools\nimport jax\n", 1
    )
    with tried(text, tmp_path, "v5e:2x4", function="step") as trials:
        change = trials.proposed(PROPOSAL)[0]
    assert '{"xla_tpu_enable_async_collective_fusion": False, "xla_jf_' in trials.text([change])


def test_a_small_program_on_one_chip_gets_no_flag(tmp_path: Path) -> None:
    text = "import jax, jax.numpy as jnp\nstep = jax.jit(jnp.tanh)\nargs = (jax.ShapeDtypeStruct((512, 512), jnp.float32),)\n"
    with tried(text, tmp_path, function="step") as trials:
        assert trials.proposed(PROPOSAL) == []
        assert "no flag of the list serves memory here" in trials.refused(PROPOSAL)


def test_every_flag_says_what_it_does_and_where_that_is_written() -> None:
    for flag in all_flags():
        assert flag.what
        assert flag.caution
        assert flag.source
        assert flag.goals
        assert flag.values or flag.when is When.FRAGMENTATION
