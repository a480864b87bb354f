"""Captured arrays become arguments."""

from __future__ import annotations

import pytest

from changes.trying import refused, tried
from running import Bench
from vtpu.changes.proposals.pass_constant import PROPOSAL

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np

table = np.random.default_rng(0).normal(size=(512, 1024)).astype(np.float32)


"""
DECORATED = "@jax.jit\ndef step(x, scale=2.0):\n    return x @ table * scale\n\n\n"
CALLED = "def step(x):\n    return x @ table\n\n\nstep = jax.jit(step)\n"
CALLS = "for i in range(3):\n    y = step(jnp.ones((8, 512)))\nprint(y.shape)\n"


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (DECORATED, "* scale\n\nstep = functools.partial(step, table=jax.device_put(table))\n"),
        (CALLED, "step = functools.partial(jax.jit(step), table=jax.device_put(table))\n"),
    ],
)
def test_a_captured_table_becomes_an_argument(bench: Bench, definition: str, expected: str) -> None:
    done = tried(bench, PROPOSAL, HEAD + definition + CALLS)
    assert expected in done.text
    before, after = done.before.program("jit_step"), done.after.program("jit_step")
    assert after.argument_bytes - before.argument_bytes == 512 * 1024 * 4
    assert before.generated_code_bytes > after.generated_code_bytes
    assert done.after.printed == done.before.printed


def test_a_table_that_another_function_takes_is_left(bench: Bench) -> None:
    inner = (
        "def look(x):\n    return x @ table\n\n\n@jax.jit\ndef step(x):\n    return look(x)\n\n\n"
    )
    why = refused(bench, PROPOSAL, HEAD + inner + CALLS)
    assert "step takes them from functions that it calls" in why
