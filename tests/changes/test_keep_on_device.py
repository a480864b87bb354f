"""What a loop sends again is sent once, before it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from changes.trying import as_file, edited, refused, tried
from running import Bench
from vtpu.analysis.run.transfers import Direction
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.keep_on_device import PROPOSAL
from vtpu.changes.rewriting.resent import CannotKeep, edits_of, resent
from vtpu.changes.source.loops import loops_around

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(w, x, scale=1.0):
    return w * scale + x.mean()


w = jnp.ones((8, 128))
table = np.ones((256, 128), np.float32)
"""


def program(loop: str) -> str:
    return HEAD + textwrap.dedent(loop)


def kept(loop: str) -> str:
    """The text of a loop with what its statements send again before it."""
    file = as_file(program(loop))
    statements = [
        n for n in ast.walk(file.tree) if isinstance(n, ast.stmt) and loops_around(file, n)
    ]
    found = [k for s in statements for k in resent(file, s)]
    return edited(file.text, edits_of(file, found, set())).removeprefix(HEAD)


def test_an_array_of_the_host_is_sent_once(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, program("""
        for i in range(5):
            w = step(w, table)
        print(w[0, 0], table.shape)
    """))  # fmt: skip
    assert done.change.numerics is Numerics.IDENTICAL
    assert done.before.transfers(Direction.HOST_TO_DEVICE)[0].bytes == 5 * 256 * 128 * 4
    assert done.after.transfers(Direction.HOST_TO_DEVICE)[0].bytes == 256 * 128 * 4
    assert done.after.printed == done.before.printed


def test_a_number_in_eager_code_is_sent_once(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, program("""
        for i in range(5):
            w = w + 0.5
        print(w[0, 0])
    """))  # fmt: skip
    assert "constant = jnp.asarray(0.5)\nfor i" in done.text
    [sent] = done.after.transfers(Direction.HOST_TO_DEVICE, "asarray(0.5)")
    assert sent.count == 1
    assert not done.after.transfers(Direction.HOST_TO_DEVICE, "w + constant")
    assert done.after.printed == done.before.printed


def test_every_spelling_is_kept() -> None:
    assert kept("""
        def load():
            x = np.random.default_rng(0).normal(size=(4, 4))
            return x, np.zeros(4)

        def train(w, x):
            lr = 0.1
            y = load()[0]
            for epoch in range(2):
                for i in range(3):
                    w = step(w, jnp.asarray(x, jnp.bfloat16), scale=lr)
                    w = step({"w": w, "y": y}, y[i], 0.1)

        train(w, table)
    """) == textwrap.dedent("""
        def load():
            x = np.random.default_rng(0).normal(size=(4, 4))
            return x, np.zeros(4)

        def train(w, x):
            lr = 0.1
            y = load()[0]
            x_on_device = jnp.asarray(x, jnp.bfloat16)
            lr_on_device = jnp.asarray(lr)
            y_on_device = jax.device_put(y)
            constant = jnp.asarray(0.1)
            for epoch in range(2):
                for i in range(3):
                    w = step(w, x_on_device, scale=lr_on_device)
                    w = step({"w": w, "y": y_on_device}, y[i], constant)

        train(w, table)
    """)  # fmt: skip


@pytest.mark.parametrize(
    "turn",
    [
        "w = step(w, np.full((4, 4), i))",
        "w = step(w, jnp.asarray(np.random.normal(size=4)))",
        "table = table + 1; w = step(w, table)",
        "w = step(w, unknown)",
        "n = i * 2",
        "w = jnp.sum(w, axis=0)",
    ],
)
def test_what_is_new_in_every_turn_is_left(turn: str) -> None:
    text = f"for i in range(3):\n    {turn}\n"
    assert kept(text) == text


@pytest.mark.parametrize("turn", ["fill(table)", "table.sort()", "others.append(table)"])
def test_what_may_be_written_to_is_left(turn: str) -> None:
    with pytest.raises(CannotKeep, match="table is also used in line 15"):
        kept(f"for i in range(3):\n    w = step(w, table)\n    {turn}\n")


def test_what_a_function_writes_to_is_left() -> None:
    with pytest.raises(CannotKeep, match="a function changes table"):
        kept("def fill():\n    table[:] = 1\n\nfor i in range(3):\n    w = step(w, table)\n")


def test_what_is_new_in_every_turn_is_said(bench: Bench) -> None:
    assert "sends what is new in every turn" in refused(bench, PROPOSAL, program("""
        for i in range(4):
            w = step(w, np.full((8, 128), i, np.float32))
    """))  # fmt: skip
