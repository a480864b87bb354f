"""Variables that a program sets when they have been read already are noted."""

from __future__ import annotations

from running import Bench

SET = """
import os
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_NOT_AN_OPTION"] = "1"
import jax, jax.numpy as jnp
os.environ["JAX_DEBUG_NANS"] = "true"
os.environ["XLA_FLAGS"] = "--xla_dump_hlo_as_text"
jnp.ones(3)
os.environ["XLA_FLAGS"] = "--xla_dump_to=here"
os.environ["OTHER"] = "1"
"""
KEPT = """
import os
os.environ["JAX_ENABLE_X64"] = "on"
import jax, jax.numpy as jnp
jnp.ones(3)
"""


def test_what_is_set_too_late_is_noted(bench: Bench) -> None:
    run = bench.run(SET, on="v5e:1x1")

    run.succeeded()
    assert run.recording.end
    assert run.recording.end.late_settings == {
        "JAX_DEBUG_NANS": "true",
        "XLA_FLAGS": "--xla_dump_to=here",
    }


def test_what_is_in_effect_is_not(bench: Bench) -> None:
    run = bench.run(KEPT, on="v5e:1x1", JAX_DEBUG_INFS="1")

    run.succeeded()
    assert run.recording.end
    assert run.recording.end.late_settings == {}
