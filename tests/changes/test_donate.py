"""Donation is written where the function is jitted, for whole arguments that nothing reads later."""

from __future__ import annotations

from pathlib import Path

import pytest

from changes.trials import PROGRAMS, Trials, tried
from vtpu.changes.proposals.donate import PROPOSAL

HEAD = """
import functools
import jax
import jax.numpy as jnp

def update(params, velocity, x):
    grads = jax.grad(lambda p: jnp.tanh(x @ p).sum())(params)
    velocity = 0.9 * velocity + grads
    return params - 0.1 * velocity, velocity

square = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
args = (square, square, jax.ShapeDtypeStruct((64, 1024), jnp.float32))
"""
LOOP = """
params, velocity, x = (jnp.zeros(a.shape, a.dtype) for a in args)
for _ in range(5):
    params, velocity = step(params, velocity, x)
"""
BOUND = """
class Trainer:
    def __init__(self, rate):
        self.rate = rate
        self.jitted = jax.jit(self.update, donate_argnums=(1,))

    def update(self, params, velocity, x):
        return update(params, velocity, x)

step = Trainer(0.1).jitted
"""


def halved(trials: Trials) -> str:
    """The text with the one change, which leaves the state once in memory."""
    __tracebackhide__ = True
    (change,) = trials.proposed(PROPOSAL)
    after = trials.measured(change).peak_bytes or 0
    assert after < 0.7 * (trials.before.peak_bytes or 0)
    return trials.text([change])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("step = jax.jit(update)", 'jax.jit(update, donate_argnames=("params", "velocity"))'),
        ("step = jax.jit(functools.partial(update))", 'donate_argnames=("params", "velocity"))'),
        ("step = jax.jit(lambda p, v, x: update(p, v, x))", 'donate_argnames=("p", "v"))'),
        ("step = update", ""),
    ],
)
def test_the_state_of_a_function_is_donated(before: str, after: str, tmp_path: Path) -> None:
    with tried(HEAD + before + "\n", tmp_path, function="step") as trials:
        if after:
            assert after in halved(trials)
        else:
            assert "where the function is jitted was not found" in trials.refused(PROPOSAL)


def test_what_is_donated_already_stays_so(tmp_path: Path) -> None:
    text = HEAD + "step = jax.jit(update, donate_argnums=0)\n"
    with tried(text, tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        assert change.title == "donate velocity"
        assert "jax.jit(update, donate_argnums=(0, 1))" in trials.text([change])


def test_the_numbers_of_a_bound_method_leave_self_out(tmp_path: Path) -> None:
    with tried(HEAD + BOUND, tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        assert "jax.jit(self.update, donate_argnums=(0, 1))" in trials.text([change])
        assert (trials.measured(change).peak_bytes or 0) < (trials.before.peak_bytes or 0)


def test_a_function_that_is_jitted_nowhere_is_jitted_behind_its_definition(tmp_path: Path) -> None:
    with tried(HEAD, tmp_path, function="update") as trials:
        text = halved(trials)
    assert (
        "    return params - 0.1 * velocity, velocity\n\n\nupdate = jax.jit(update, donate_" in text
    )


def test_a_script_donates_and_runs_on(tmp_path: Path) -> None:
    text = HEAD.replace("def update", "@jax.jit\ndef step") + LOOP
    with tried(text, tmp_path) as trials:
        after = halved(trials)
    assert '@functools.partial(jax.jit, donate_argnames=("params", "velocity"))\ndef step' in after


def test_an_argument_that_a_script_still_reads_is_not_donated(tmp_path: Path) -> None:
    loop = LOOP.replace("params, velocity = step", "new, velocity = step")
    text = (
        HEAD
        + "step = jax.jit(update)\n"
        + loop
        + "    print((new - params).max())\n    params = new\n"
    )
    with tried(text, tmp_path) as trials:
        (change,) = trials.proposed(PROPOSAL)
        assert change.title == "donate velocity"
        assert "params is used after the call: `params` in line" in trials.refused(PROPOSAL)


def test_an_argument_of_which_outputs_take_a_part_is_not_donated(tmp_path: Path) -> None:
    text = (
        HEAD
        + "step = jax.jit(lambda params: params[0] * params[2].sum() + params[1].sum())\nargs = (args,)\n"
    )
    with tried(text, tmp_path, function="step") as trials:
        assert trials.proposed(PROPOSAL) == []
        assert "only a part of params" in trials.refused(PROPOSAL)


def test_a_state_in_one_tree_is_donated_whole(tmp_path: Path) -> None:
    with tried(PROGRAMS / "train_state.py", tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        after = trials.measured(change).peak_bytes or 0
    assert 'jax.jit(train, donate_argnames="state")' in trials.text([change])
    assert after < 0.8 * (trials.before.peak_bytes or 0)
