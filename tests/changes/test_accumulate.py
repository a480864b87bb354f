"""Gradients in parts: the helper computes what the whole batch gives, and stands where it belongs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from changes.trying import edited, proposed, refused, situation_of
from running import Bench
from vtpu.changes.change import Change, Numerics
from vtpu.changes.proposals.accumulate import _HELPER, _SOURCE, PROPOSAL


def helper() -> Any:
    module = ModuleType("helper")
    module.__dict__["jax"] = jax
    exec(_SOURCE, module.__dict__)
    return module.__dict__[_HELPER]


X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


def mean_loss(w, x, y):
    error = jnp.square(jnp.tanh(x @ w) - y)
    return error.mean(), {"error": jnp.abs(error).mean(), "count": jnp.int32(x.shape[0])}


@pytest.mark.parametrize("parts", [2, 4, 16])
def test_parts_give_what_the_whole_batch_gives(parts):
    gradients = jax.value_and_grad(mean_loss, has_aux=True)
    whole = gradients(W, X, X[:, :3])
    found = jax.jit(helper()(gradients, parts, (1, 2)))(W, X, X[:, :3])
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-5), whole, found))


def test_parts_of_a_sum_are_summed():
    gradients = jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w)))
    found = helper()(gradients, 4, (1,), mean=False)(W, X)
    assert np.allclose(found, gradients(W, X), rtol=1e-5)


def test_a_batch_that_is_a_tree_is_split_leaf_by_leaf():
    gradients = jax.grad(lambda w, batch: jnp.mean(batch["x"] @ w * batch["y"][:, None]))
    batch = {"x": X, "y": X[:, 0]}
    assert np.allclose(helper()(gradients, 2, (1,))(W, batch), gradients(W, batch), rtol=1e-5)


def test_results_with_rows_of_the_batch_are_refused():
    gradients = jax.value_and_grad(lambda w, x: (jnp.mean(x @ w), x @ w), has_aux=True)
    with pytest.raises(ValueError, match="rows of the batch"):
        helper()(gradients, 2, (1,))(W, X)


# ---- where it is put ---------------------------------------------------------------------------

PROGRAM = """
import jax
import jax.numpy as jnp

WIDTH, BATCH = 256, 262144

def loss_of(params, x):
    for _ in range(3):
        x = jnp.tanh(x @ params)
    return {reduction}

{step}

params = jnp.ones((WIDTH, WIDTH))
x = jnp.ones((BATCH, WIDTH))
for _ in range(3):
    params = step(params, x)
"""
DIRECT = """
@jax.jit
def step(params, x):
    grads = jax.grad(loss_of)(params, x)
    return params - grads
"""
NAMED = """
gradients = jax.value_and_grad(
    loss_of,
)

@jax.jit
def step(params, x):
    loss, grads = gradients(params, x)
    return params - grads * loss
"""
CLOSURE = """
@jax.jit
def step(params, x):
    def loss(params):
        return loss_of(params, x)

    value, grads = jax.value_and_grad(loss)(params)
    return params - grads * value
"""


def program(step: str, reduction: str = "jnp.mean(jnp.square(x))") -> str:
    return PROGRAM.format(step=step.strip(), reduction=reduction)


def changes_of(bench: Bench, text: str, on: str = "v5e:1x1") -> list[Change]:
    found, reasons = proposed(PROPOSAL, situation_of(bench, bench.run(text, on=on)))
    assert found, reasons
    return found


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (DIRECT, "accumulated(jax.grad(loss_of), 4, (1,))(params, x)"),
        (NAMED, "accumulated(jax.value_and_grad(\n    loss_of,\n), 4, (1,))"),
        (CLOSURE, "accumulated(jax.value_and_grad(loss), 4, (1,))(params, x)"),
    ],
)
def test_activations_shrink_with_the_parts(bench: Bench, step, call):
    text = program(step)
    before = bench.run(text, on="v5e:1x1").program("jit_step")
    changes = changes_of(bench, text)
    assert [c.title.split()[-2] for c in changes] == ["2", "4", "8"]
    assert {c.numerics for c in changes} == {Numerics.TOLERANCE}
    after_text = edited(text, changes[1].edits)
    assert call in after_text
    after = bench.run(after_text, on="v5e:1x1")
    assert after.exit_code == 0, after.stderr
    assert after.program("jit_step").need_bytes < 0.75 * before.need_bytes


def test_a_split_batch_stays_where_it_is(bench: Bench):
    text = program(DIRECT).replace(
        "x = jnp.ones((BATCH, WIDTH))",
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        'mesh = Mesh(jax.devices(), ("data",))\n'
        'x = jnp.ones((BATCH, WIDTH), device=NamedSharding(mesh, P("data")))',
    )
    change = changes_of(bench, text, on="v5e:2x2")[0]
    after = bench.run(edited(text, change.edits), on="v5e:2x2")
    assert after.exit_code == 0, after.stderr
    situation = situation_of(bench, after)
    opcodes = {i.opcode for i in situation.program.module.by_id.values()}
    assert not opcodes & {"all-gather", "all-to-all", "collective-permute", "all-gather-start"}


def test_a_sum_is_not_averaged_and_what_is_unknown_is_said(bench: Bench):
    summed = changes_of(bench, program(DIRECT, "jnp.sum(jnp.square(x))"))[0]
    assert any("mean=False" in getattr(e, "after", "") for e in summed.edits)
    assert summed.numerics is Numerics.TOLERANCE
    unknown = changes_of(bench, program(DIRECT, "jnp.linalg.norm(x)"))[0]
    assert unknown.numerics is Numerics.DIFFERENT
    assert "could not be told" in unknown.caution


def test_a_program_without_gradients_is_left_alone(bench: Bench):
    text = program(
        "@jax.jit\ndef step(params, x):\n    return params + jnp.tanh(x @ params).mean()"
    )
    assert "no gradients" in refused(bench, PROPOSAL, text)


def test_a_batch_that_cannot_be_told_is_said(bench: Bench):
    text = (
        program(DIRECT)
        .replace("(params, x)", "(params, z)")
        .replace("x = jnp.ones", "z = jnp.ones")
    )
    text = text.replace("def loss_of(params, z):", "def loss_of(params, x):")
    assert "no argument is known to be the batch" in refused(bench, PROPOSAL, text)
