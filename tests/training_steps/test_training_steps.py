"""The steps really train: run on the CPU, the loss is finite and goes down."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from training_steps.training import EXPERTS, GEMMA2, GPT3, LATENT, MAXTEXT_2023, MODEL, RUN, TRAIN

ROOT = Path(__file__).parents[2]
FAST_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
FLOAT32 = {"compute_dtype": "float32"}
STEPS = {
    "llama": (MODEL, RUN),
    "llama, each layer apart": (MODEL, {**RUN, "scan_layers": False}),
    "maxtext of 2023": (MAXTEXT_2023, {**RUN, "remat": "minimal", "iota_embed": True}),
    "gpt3": (GPT3, {**RUN, "remat": "none"}),
    "gemma2": (GEMMA2, {**RUN, "remat": "minimal_flash"}),
    "latent": (LATENT, {**RUN, "remat": "save_dot_with_context_except_mlp"}),
    "latent experts": ({**LATENT, **EXPERTS, "kv_heads": 4}, {**RUN, "moe": "ragged_dot"}),
    "ragged": ({**EXPERTS, **FLOAT32}, {**RUN, "moe": "ragged_dot"}),
    "dense": ({**EXPERTS, **FLOAT32}, {**RUN, "moe": "dense"}),
    "roomy": ({**EXPERTS, **FLOAT32}, {**RUN, "moe": "dense", "capacity_factor": 4.0}),
    "pairs": ({**MODEL, **FLOAT32, "rope": "pairs"}, RUN),
    "shifts": ({**MODEL, **FLOAT32, "rope": "shifts"}, RUN),
    "kept": ({**MODEL, **FLOAT32, "rope": "pairs"}, {**RUN, "remat": "none"}),
}


@pytest.fixture(scope="module")
def losses(environment):
    """Three losses of every step, all from one process."""
    ended = subprocess.run(
        [sys.executable, "-c", TRAIN, str(ROOT)],
        input=json.dumps(list(STEPS.values())),
        env={**environment, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": FAST_COMPILE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return dict(zip(STEPS, json.loads(ended.stdout), strict=True))


@pytest.mark.parametrize("name", STEPS)
def test_a_step_trains(losses, name):
    first, second, third = losses[name]
    assert math.isfinite(first)
    assert first > second > third


def test_the_first_loss_is_that_of_guessing(losses):
    guessing = math.log(MODEL["vocab"])
    assert guessing < losses["llama"][0] < guessing + 1  # logits have a variance of 1 at first


def test_grouped_products_do_what_all_experts_do(losses):
    assert losses["ragged"] == pytest.approx(losses["dense"], rel=1e-5)


def test_with_room_for_all_no_token_is_dropped(losses):
    """The rest is the loss of unbalanced experts."""
    extra = [
        with_loss - without
        for with_loss, without in zip(losses["roomy"], losses["dense"], strict=True)
    ]
    assert all(0 < loss < 0.03 for loss in extra)


def test_rope_by_shifts_rotates_the_pairs(losses):
    assert losses["shifts"] == pytest.approx(losses["pairs"], rel=1e-5)


def test_remat_changes_no_number(losses):
    assert losses["kept"] == pytest.approx(losses["pairs"], rel=1e-5)
