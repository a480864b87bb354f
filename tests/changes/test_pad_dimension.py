"""Dimensions that fill no tiles are rounded up."""

from __future__ import annotations

from changes.trying import refused, tried
from running import Bench
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.pad_dimension import PROPOSAL

VOCABULARY = """
import jax
import jax.numpy as jnp

VOCAB, WIDTH = 1000, 256


@jax.jit
def score(params, x):
    return jnp.tanh(x @ params["head"]).sum()


params = {"head": jnp.ones((WIDTH, VOCAB))}
for _ in range(3):
    score(params, jnp.ones((64, WIDTH)))
print(params["head"].shape)
"""


def test_a_vocabulary_becomes_a_multiple_of_a_tile(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, VOCABULARY)
    assert "VOCAB, WIDTH = 1024, 256" in done.text
    assert done.change.numerics is Numerics.DIFFERENT
    assert done.after.printed == "(256, 1024)\n"


def test_a_multiple_stays_as_it_is(bench: Bench) -> None:
    assert "no weight has a dimension" in refused(
        bench, PROPOSAL, VOCABULARY.replace("1000", "1024")
    )


def test_a_number_that_stands_there_twice_is_left_to_the_user(bench: Bench) -> None:
    text = VOCABULARY.replace("VOCAB, WIDTH = 1000, 256", "VOCAB, WIDTH = 1000, 256\nSTEPS = 1000")
    assert "VOCAB" in refused(bench, PROPOSAL, text)
