"""Of logits only the rows that are used are computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from changes.trials import tried
from vtpu.changes.proposals.select_rows import PROPOSAL

SERVING = """
import jax
import jax.numpy as jnp

TOKENS, REQUESTS, WIDTH, VOCAB = 8192, 8, 128, 32000

@jax.jit
def step(hidden, head, last):
    {body}

args = (
    jax.ShapeDtypeStruct({shape}, jnp.bfloat16),
    jax.ShapeDtypeStruct((WIDTH, VOCAB), jnp.bfloat16),
    jax.ShapeDtypeStruct((REQUESTS,), jnp.int32),
)
"""
ROWS, BATCH = "(TOKENS, WIDTH)", "(REQUESTS, TOKENS // REQUESTS, WIDTH)"


def serving(body: str, shape: str = ROWS) -> str:
    return SERVING.format(body=body.replace("\n", "\n    "), shape=shape)


@pytest.mark.parametrize(
    ("body", "shape", "product"),
    [
        (
            "logits = (hidden @ head).astype(jnp.float32)\nprobs = jax.nn.softmax(logits / 0.7)\nreturn probs[last]",
            ROWS,
            "(hidden[last] @ head)",
        ),
        (
            "logits = jnp.einsum('...d,dv->...v', hidden * 2, head)\nreturn jax.nn.log_softmax(logits)[:, -1]",
            BATCH,
            "(hidden * 2)[:, -1], head",
        ),
        (
            "return jnp.take(jnp.exp(hidden @ head), last, axis=0) - 1",
            ROWS,
            "return jnp.exp(hidden[last] @ head) - 1",
        ),
    ],
    ids=["softmax", "last position", "take"],
)
def test_rows_are_taken_before_the_product(
    body: str, shape: str, product: str, tmp_path: Path
) -> None:
    with tried(serving(body, shape), tmp_path, function="step") as trials:
        (change,) = trials.proposed(PROPOSAL)
        after = trials.measured(change).peak_bytes or 0
    assert product in trials.text([change])
    assert after < 0.2 * (trials.before.peak_bytes or 0)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "probs = jax.nn.softmax((hidden @ head).astype(jnp.float32))\nreturn probs[last], probs.max(axis=-1)",
            "something of every row is used too",
        ),
        (
            "probs = jax.nn.softmax((hidden @ head).astype(jnp.float32))\nlast = last - 1\nreturn probs[last]",
            "last is assigned behind it",
        ),
        (
            "probs = jax.nn.softmax((hidden @ head).astype(jnp.float32))\nreturn probs[last], probs[:8]",
            "several selections of rows",
        ),
        (
            "return jax.nn.softmax((hidden @ head).astype(jnp.float32))",
            "no large product is followed",
        ),
    ],
    ids=["all rows", "index comes later", "two selections", "all are returned"],
)
def test_where_that_would_change_something_it_is_refused(
    body: str, why: str, tmp_path: Path
) -> None:
    with tried(serving(body), tmp_path, function="step") as trials:
        assert trials.proposed(PROPOSAL) == []
        assert why in trials.refused(PROPOSAL)
