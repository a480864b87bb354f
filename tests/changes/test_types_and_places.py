"""State in other types and in host memory, other batches, other meshes: what is written, what it does."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from changes.trying import edited, proposed, situation_of
from running import Bench, Run
from vtpu.changes.change import Change, Numerics
from vtpu.changes.goal import Goal
from vtpu.changes.proposals import (
    activation_dtype,
    batch_size,
    mesh_order,
    optimizer_dtype,
    optimizer_in_host_memory,
    parameter_dtype,
)
from vtpu.changes.rewriting import casting

PROGRAM = """
from functools import partial

import jax
import jax.numpy as jnp

WIDTH, BATCH = 2048, 1024

def loss_of(params, x):
    return jnp.mean(jnp.square(jnp.tanh(x @ params["w"])))

@partial(jax.jit, donate_argnums=(0, 1))
def step(params, opt, x):
    "One step."
    grads = jax.grad(loss_of)(params, x)
    mu = jax.tree.map(lambda m, g: 0.9 * m + g, opt["mu"], grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, mu)
    return params, {"mu": mu, "count": opt["count"] + 1}

def main():
    params = {"w": jnp.ones((WIDTH, WIDTH))}
    opt = {"mu": jax.tree.map(jnp.zeros_like, params), "count": jnp.zeros((), jnp.int32)}
    x = jnp.ones((BATCH, WIDTH))
    for _ in range(3):
        params, opt = step(params, opt, x)

main()
"""
STATE = 2048 * 2048 * 4


def changes_of(
    bench: Bench, proposal: Any, text: str = PROGRAM, on: str = "v5e:1x1", **more: Any
) -> list[Change]:
    run = bench.run(text, on=on)
    assert run.exit_code == 0, run.stderr
    found, reasons = proposed(proposal, replace(situation_of(bench, run), **more))
    assert found, reasons
    return found


def run_with(bench: Bench, change: Change, text: str = PROGRAM, on: str = "v5e:1x1") -> Run:
    run = bench.run(edited(text, change.edits), on=on)
    assert run.exit_code == 0, run.stderr[-3000:]
    return run


def argument_bytes(run: Run) -> tuple[int, int]:
    """Of the step's last program: in the device's memory and in the host's."""
    program = [p for p in run.recording.programs if p.name == "jit_step"][-1]
    return program.argument_bytes, program.host_argument_bytes


@pytest.mark.parametrize("proposal", [parameter_dtype.PROPOSAL, optimizer_dtype.PROPOSAL])
def test_state_in_bfloat16_takes_half_and_stays_so(bench: Bench, proposal):
    (change,) = changes_of(bench, proposal)
    assert change.numerics is Numerics.DIFFERENT
    assert change.expected_bytes == STATE / 2
    after = run_with(bench, change)
    steps = [p for p in after.recording.programs if p.name == "jit_step"]
    assert len(steps) == 1  # the new state has the type of the old one: nothing is compiled again
    assert steps[0].alias_bytes >= STATE * 1.5  # and takes its memory
    assert argument_bytes(after)[0] == pytest.approx(STATE * 1.5 + STATE / 2, rel=0.01)


def test_state_in_another_type_keeps_its_integers():
    module = ModuleType("helper")
    module.__dict__["jax"] = jax
    exec(casting._SOURCE, module.__dict__)
    tree = {"a": jnp.ones(2), "b": {"n": jnp.zeros((), jnp.int32), "x": np.ones(3, np.float32)}}
    found = module.__dict__["as_type"](tree, jnp.bfloat16, below=("['b']",))
    assert jax.tree.map(lambda a: str(a.dtype), found) == {
        "a": "float32",
        "b": {"n": "int32", "x": "bfloat16"},
    }


def test_the_optimizer_state_waits_in_host_memory(bench: Bench):
    plain, late = changes_of(bench, optimizer_in_host_memory.PROPOSAL)
    assert plain.numerics is Numerics.IDENTICAL
    text = edited(PROGRAM, plain.edits)
    assert '    "One step."\n    opt = in_memory(opt, jax.memory.Space.Device)\n' in text
    on_device, on_host = argument_bytes(run_with(bench, late))
    assert on_host == STATE
    assert on_device == pytest.approx(STATE + STATE / 2, rel=0.01)


def test_a_loss_in_bfloat16_keeps_the_parameters(bench: Bench):
    text = PROGRAM.replace("BATCH = 2048, 1024", "BATCH = 1024, 65536")
    (change,) = changes_of(bench, activation_dtype.PROPOSAL, text)
    before = bench.run(text, on="v5e:1x1").program("jit_step")
    after = run_with(bench, change, text).program("jit_step")
    assert after.argument_bytes == before.argument_bytes
    assert after.temp_bytes < 0.8 * before.temp_bytes


@pytest.mark.parametrize(
    ("goal", "sizes"), [(Goal.FIT, [512, 256, 128]), (Goal.SPEED, [1536, 2048, 4096])]
)
def test_another_batch_is_written_where_its_size_stands(bench: Bench, goal, sizes):
    changes = changes_of(bench, batch_size.PROPOSAL, goal=goal)
    assert [c.work for c in changes] == [size / 1024 for size in sizes]
    for change, size in zip(changes, sizes, strict=True):
        assert f"WIDTH, BATCH = 2048, {size}\n" in edited(PROGRAM, change.edits)


def test_a_smaller_batch_is_no_answer_to_less_memory(bench: Bench):
    run = bench.run(PROGRAM, on="v5e:1x1")
    changes, reasons = proposed(batch_size.PROPOSAL, situation_of(bench, run))
    assert not changes
    assert "--goal fit" in reasons[0]


MESHED = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = {mesh}

@jax.jit
def step(w, x):
    return w - jnp.tanh(x @ w).mean()

w = jnp.ones((256, 256), device=NamedSharding(mesh, P(None, "model")))
x = jnp.ones((1024, 256), device=NamedSharding(mesh, P("data")))
for _ in range(3):
    w = step(w, x)
"""


@pytest.mark.parametrize(
    ("mesh", "written"),
    [
        (
            'Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))',
            [
                'Mesh(mesh_utils.create_device_mesh((2, 2)), ("data", "model"))',
                'Mesh(np.array(jax.devices()).reshape(2, 2), ("model", "data"))',
            ],
        ),
        (
            'jax.make_mesh((2, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)',
            [
                'jax.make_mesh((2, 2), ("model", "data"), axis_types=(jax.sharding.AxisType.Auto,) * 2)'
            ],
        ),
    ],
)
def test_devices_stand_in_other_orders_in_the_mesh(bench: Bench, mesh, written):
    text = MESHED.format(mesh=mesh)
    changes = changes_of(bench, mesh_order.PROPOSAL, text, on="v5e:2x2")
    texts = [edited(text, c.edits) for c in changes]
    assert all(line in one for line, one in zip(written, texts, strict=True))
    run_with(bench, changes[0], text, on="v5e:2x2")


def test_devices_that_do_not_talk_have_no_order(bench: Bench):
    text = MESHED.format(mesh='Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))')
    text = text.replace("w - jnp.tanh(x @ w).mean()", "w + 1")
    changes, reasons = proposed(
        mesh_order.PROPOSAL, situation_of(bench, bench.run(text, on="v5e:2x2"))
    )
    assert not changes
    assert reasons == ["its devices do not talk to one another"]
