"""Integer labels pick what products with one-hot rows pick."""

from __future__ import annotations

from pathlib import Path

import pytest

from changes.trials import tried
from vtpu.changes.outcome import Results
from vtpu.changes.proposals.integer_labels import PROPOSAL

PROGRAM = """
import jax
import jax.numpy as jnp

ROWS, CLASSES = 1 << 22, 20

def hold(x):
    return jax.lax.optimization_barrier(x)

@jax.jit
def step(logits, table, labels):
    {body}

args = (
    jax.ShapeDtypeStruct((ROWS, CLASSES), jnp.float32),
    jax.ShapeDtypeStruct((CLASSES, 4), jnp.float32),
    jax.ShapeDtypeStruct((ROWS,), jnp.int32),
)
"""


def program(body: str) -> str:
    return PROGRAM.format(body=body.replace("\n", "\n    "))


@pytest.mark.parametrize(
    ("body", "new"),
    [
        (
            "rows = hold(jax.nn.one_hot(labels, CLASSES))\nreturn -(rows * logits).sum()",
            "    return -(jnp.take_along_axis(logits, labels[..., None], axis=-1)).sum()",
        ),
        (
            "return jnp.sum(logits * hold(jax.nn.one_hot(labels % 7, CLASSES)), axis=-1).mean()",
            "jnp.sum(jnp.take_along_axis(logits, (labels % 7)[..., None], axis=-1), axis=-1).mean()",
        ),
    ],
    ids=["summed", "of each row"],
)
def test_labels_pick(body: str, new: str, tmp_path: Path) -> None:
    with tried(program(body), tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        after = trials.measured(change).peak_bytes or 0
        assert trials.compared(change) in (Results.IDENTICAL, Results.TOLERANCE)
    assert new in trials.text([change])
    assert "one_hot" not in trials.text([change])
    assert after < 0.9 * (trials.before.peak_bytes or 0)


def test_a_row_of_a_table_is_taken_by_its_number(tmp_path: Path) -> None:
    body = (
        "rows = hold(jax.nn.one_hot(labels, CLASSES))\nreturn rows @ table, (logits * rows).sum(-1)"
    )
    with tried(program(body), tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        assert trials.compared(change) in (Results.IDENTICAL, Results.TOLERANCE)
    assert "return table[labels], (jnp.take_along_axis(logits, " in trials.text([change])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("rows = hold(jax.nn.one_hot(labels, CLASSES))\nreturn (rows * logits).mean()", "does not sum"),
        ("rows = hold(jax.nn.one_hot(labels, CLASSES))\nreturn (rows * logits).sum(), rows.max(axis=0)", "otherwise than in a product"),
        ("rows = hold(jax.nn.one_hot(labels, CLASSES, axis=0))\nreturn (rows.T * logits).sum()", "not along the last axis"),
    ],
    ids=["a mean", "used otherwise", "classes first"],
)  # fmt: skip
def test_where_the_rows_are_needed_it_is_refused(body: str, why: str, tmp_path: Path) -> None:
    with tried(program(body), tmp_path, function="step") as trials:
        assert trials.proposed(PROPOSAL) == []
        assert why in trials.refused(PROPOSAL)
