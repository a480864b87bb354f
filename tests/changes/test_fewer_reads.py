"""Reads in a loop: rarer or later, and the program's results stay."""

from __future__ import annotations

import textwrap

from changes.trying import refused, tried
from running import Bench
from vtpu.analysis.run.transfers import Direction
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.fewer_reads import PROPOSAL

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(w):
    return w * 0.5, (w * w).mean()


w = jnp.ones((8, 128))
"""


def program(loop: str) -> str:
    return HEAD + textwrap.dedent(loop)


def test_what_is_printed_is_read_every_50_steps(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, program("""
        for i in range(6):
            w, loss = step(w)
            print(i, float(loss))
        print(float(loss))
    """))  # fmt: skip
    assert done.change.numerics is Numerics.IDENTICAL
    assert [t.count for t in done.before.transfers(Direction.DEVICE_TO_HOST, "print(i")] == [6]
    assert [t.count for t in done.after.transfers(Direction.DEVICE_TO_HOST, "print(i")] == [1]
    first, *_, last = done.before.printed.splitlines()
    assert done.after.printed.splitlines() == [first, last]


def test_what_is_collected_is_read_behind_the_loop(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, program("""
        losses = []
        for i in range(6):
            w, loss = step(w)
            value = float(loss)
            losses.append(value)
        print(sum(losses), losses)
    """))  # fmt: skip
    assert done.after.printed == done.before.printed
    lines = {str(t.line) for t in done.after.transfers(Direction.DEVICE_TO_HOST)}
    assert len(lines) == len(done.after.transfers(Direction.DEVICE_TO_HOST, "losses[:] =")) == 1


def test_a_program_whose_loop_reads_nothing_is_told_so(bench: Bench) -> None:
    why = refused(bench, PROPOSAL, program("print(float(step(w)[1]))"))
    assert why == "no loop reads arrays on the host again and again"
