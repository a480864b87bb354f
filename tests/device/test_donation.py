"""What a program was asked to donate is in the recording, also where JAX drops it."""

from __future__ import annotations

from running import Bench, Run

SCRIPT = """
import jax
import jax.numpy as jnp

def step(wider, shorter, same):
    return wider.astype(jnp.bfloat16), shorter[:3], same + 1

jax.jit(step, donate_argnums=(0, 1, 2))(jnp.ones((256, 256)), jnp.ones((256, 256)), jnp.ones(8))
"""
NANS = "import jax\njax.config.update('jax_debug_nans', True)\n"


def recorded(run: Run) -> tuple[tuple[int, ...] | None, tuple[int, ...], bool]:
    (step,) = (p for p in run.recording.programs if p.name == "jit_step")
    return step.asked_to_donate, step.donated_parameters, step.donation_is_off


def test_donations_that_no_output_takes_are_recorded(bench: Bench) -> None:
    assert recorded(bench.run(SCRIPT, on="v5e:1x1")) == ((0, 1, 2), (2,), False)


def test_looking_for_nans_switches_donation_off(bench: Bench) -> None:
    assert recorded(bench.run(NANS + SCRIPT, on="v5e:1x1")) == ((), (), True)
