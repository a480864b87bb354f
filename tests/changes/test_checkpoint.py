"""A checkpoint around repeated code saves memory, in every way of writing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from changes.trials import PROGRAMS, tried
from vtpu.changes.goal import Goal
from vtpu.changes.proposals import checkpoint, checkpoint_policy, nested_checkpoints, offload

PROGRAMS_WITH_BLOCKS = {
    "inline_loop": "jax.checkpoint(turn)(x)",
    "nnx_loop": "x = nnx.remat(lambda module: module(x))(block)",
    "nnx_scan": "@nnx.remat(prevent_cse=False)",
    "linen_loop": 'nn.remat(Block)(1024, name=f"Block_{i}")(x)',
    "linen_scan": "nn.scan(nn.remat(Block, prevent_cse=False), ",
}


def test_each_policy_keeps_less_of_a_scan_the_less_it_saves(tmp_path: Path) -> None:
    with tried(PROGRAMS / "scan.py", tmp_path, function="step") as trials:
        nothing, dots = trials.proposed(checkpoint.PROPOSAL)[:2]
        needs = [trials.measured(c).peak_bytes or 0 for c in (nothing, dots)]
        before = trials.before.peak_bytes or 0
    assert needs[0] < needs[1] < before
    assert 0.5 < (nothing.expected_bytes or 0) / (before - needs[0]) < 2
    assert nothing.group == dots.group
    assert "jax.lax.scan(jax.checkpoint(block, prevent_cse=False), x, weights)" in trials.text(
        [nothing]
    )


@pytest.mark.parametrize("name", PROGRAMS_WITH_BLOCKS)
def test_a_block_is_computed_again(name: str, tmp_path: Path) -> None:
    with tried(PROGRAMS / f"{name}.py", tmp_path, function="step") as trials:
        change = trials.proposed(checkpoint.PROPOSAL)[0]
        after = trials.measured(change).peak_bytes or 0
    assert after < 0.9 * (trials.before.peak_bytes or 0)
    assert PROGRAMS_WITH_BLOCKS[name] in trials.text([change])


def test_a_block_of_a_script_is_found_in_its_run(tmp_path: Path) -> None:
    with tried(PROGRAMS / "equinox_loop.py", tmp_path) as trials:
        change = trials.proposed(checkpoint.PROPOSAL)[0]
        after = trials.measured(change).peak_bytes or 0
    assert after < (trials.before.peak_bytes or 0)
    assert "x = jax.checkpoint(lambda: block(x))()" in trials.text([change])


def test_a_long_scan_goes_in_blocks(tmp_path: Path) -> None:
    with tried(PROGRAMS / "long_scan.py", tmp_path, function="step") as trials:
        change = trials.proposed(nested_checkpoints.PROPOSAL)[0]
        after = trials.measured(change).peak_bytes or 0
    assert after < 0.4 * (trials.before.peak_bytes or 0)


def test_what_products_give_waits_on_the_host(tmp_path: Path) -> None:
    with tried(PROGRAMS / "scan.py", tmp_path, function="step") as trials:
        change = trials.proposed(offload.PROPOSAL)[0]
        after = trials.measured(change).peak_bytes or 0
    assert after < 0.6 * (trials.before.peak_bytes or 0)


def test_for_speed_a_checkpoint_is_taken_away(tmp_path: Path) -> None:
    text = (PROGRAMS / "scan.py").read_text().replace("def block", "@jax.checkpoint\ndef block")
    with tried(text, tmp_path, function="step", goal=Goal.SPEED) as trials:
        changes = trials.proposed(checkpoint_policy.PROPOSAL)
        removed = changes[-1]
        after = trials.measured(removed)
    assert "dots_with_no_batch_dims_saveable" in trials.text(changes[:1])
    assert "checkpoint" not in trials.text([removed])
    assert (after.peak_bytes or 0) > (trials.before.peak_bytes or 0)
    assert "already" in trials.refused(checkpoint.PROPOSAL)


def test_a_program_without_gradients_gets_no_checkpoint(tmp_path: Path) -> None:
    text = (PROGRAMS / "scan.py").read_text().replace("jax.grad(loss)", "loss")
    with tried(text, tmp_path, function="step") as trials:
        for proposal in (checkpoint.PROPOSAL, offload.PROPOSAL, nested_checkpoints.PROPOSAL):
            assert trials.proposed(proposal) == []
            assert trials.refused(proposal)
