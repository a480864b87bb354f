"""Sizes that change are padded to a few."""

from __future__ import annotations

from changes.trying import refused, tried
from running import Bench
from vtpu.changes.change import Numerics
from vtpu.changes.proposals.buckets import PROPOSAL

LENGTHS = """
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def encode(table, tokens):
    return table[tokens].sum()


table = jnp.ones((64, 8))
for length in (97, 101, 98, 110, 120, 99, 105, 127, 111, 103):
    encode(table, np.zeros(length, np.int32))
print("done")
"""
IN_A_TREE = LENGTHS.replace("table[tokens]", 'table[tokens["ids"]]').replace(
    "np.zeros(length, np.int32)", '{"ids": np.zeros(length, np.int32)}'
)
ONE_SIZE = LENGTHS.replace("np.zeros(length", "np.zeros(128")


def test_one_program_does_for_lengths_that_are_near_each_other(bench: Bench) -> None:
    done = tried(bench, PROPOSAL, LENGTHS)
    assert done.before.program("jit_encode").compiles == 10
    assert done.after.program("jit_encode").compiles <= 3
    assert done.change.numerics is Numerics.DIFFERENT
    assert "mask" in done.change.caution


def test_what_is_inside_of_an_argument_is_told_to_be_padded_where_it_is_made(bench: Bench) -> None:
    assert "is inside of an argument" in refused(bench, PROPOSAL, IN_A_TREE)


def test_without_changing_sizes_nothing_is_proposed(bench: Bench) -> None:
    assert "no function is called with one size that changes" in refused(bench, PROPOSAL, ONE_SIZE)
