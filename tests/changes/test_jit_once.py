"""What is jitted again and again is jitted once."""

from __future__ import annotations

import textwrap

import pytest

from changes.trying import proposed, refused, situation_of, tried
from running import Bench
from vtpu.changes.proposals.jit_once import PROPOSAL

HEAD = """\
import jax
import jax.numpy as jnp

x = jnp.ones((256,))
"""


def program(text: str) -> str:
    return HEAD + textwrap.dedent(text) + "print(x[0])\n"


FOUND = {
    "a lambda in a loop": (
        """
        for i in range(4):
            x = jax.jit(lambda v: v * 1.5 + 1.0)(x)
        """,
        "jitted = jax.jit(lambda v: v * 1.5 + 1.0)\nfor i in range(4):\n    x = jitted(x)\n",
    ),
    "a name in a loop": (
        """
        for j in range(1):
            for i in range(4):
                f = jax.jit(lambda v: v * 1.5 + 1.0)
                x = f(x)
        """,
        "f = jax.jit(lambda v: v * 1.5 + 1.0)\nfor j in range(1):\n    for i in range(4):\n        x = f(x)\n",
    ),
    "a definition in a loop": (
        """
        for i in range(4):
            @jax.jit
            def f(v):
                return v * 1.5 + 1.0
            x = f(x)
        """,
        "@jax.jit\ndef f(v):\n    return v * 1.5 + 1.0\nfor i in range(4):\n    x = f(x)\n",
    ),
    "a function that jits": (
        """
        def scale(v):
            return v * 1.5 + 1.0

        def apply(v):
            return jax.jit(lambda v: scale(v))(v)

        for i in range(4):
            x = apply(x)
        """,
        "jitted = jax.jit(lambda v: scale(v))\ndef apply(v):\n    return jitted(v)\n",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_it_is_jitted_once(bench: Bench, case: str) -> None:
    text, expected = FOUND[case]
    done = tried(bench, PROPOSAL, program(text))
    assert expected in done.text
    assert max(p.compiles for p in done.before.summary.programs) == 4
    assert max(p.compiles for p in done.after.summary.programs) == 1
    assert done.after.printed == done.before.printed


def test_a_function_that_takes_what_may_change_is_left(bench: Bench) -> None:
    why = refused(bench, PROPOSAL, program("""
        class Model:
            w = 2.0

        model = Model()
        for i in range(3):
            x = jax.jit(lambda v: v * model.w)(x)
        for i in range(3):
            x = jax.jit(lambda v: v * i)(x)
    """))  # fmt: skip
    assert "takes model from around it" in why
    assert "takes i from around it" in why


def test_a_function_that_is_defined_once_is_left(bench: Bench) -> None:
    run = bench.run(
        program("f = jax.jit(lambda v: v + 1)\nfor i in range(3): x = f(x)\n"), on="v5e:1x1"
    )
    assert proposed(PROPOSAL, situation_of(bench, run)) == (
        [],
        ["no function is jitted again and again"],
    )
