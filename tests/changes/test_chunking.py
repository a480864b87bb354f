"""Losses in chunks: what is understood, and that the loss and its gradient stay."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from changes.trying import as_file, edited
from vtpu.changes.rewriting.chunking import edits_of, plan
from vtpu.changes.source.products import product_of
from vtpu.changes.source.wide_values import UsedWhole, follow

HEAD = """
import jax
import jax.numpy as jnp
import optax
from jax import lax

"""
LOSSES = {
    "log_softmax": """
        def loss(hidden, w, labels, mask):
            logits = (hidden @ w["head"]).astype(jnp.float32)
            logp = jax.nn.log_softmax(logits)
            nll = -jnp.take_along_axis(logp, labels[..., None], axis=-1)[..., 0]
            return (nll * mask).sum() / mask.sum()
    """,
    "logsumexp and accuracy": """
        def loss(hidden, w, labels, mask):
            x = jnp.tanh(hidden)
            logits = jnp.matmul(x * 2, w["head"]) + w["bias"]
            normalizer = jax.nn.logsumexp(logits, axis=-1)
            right = (jnp.argmax(logits, axis=-1) == labels).mean()
            picked = jnp.squeeze(jnp.take_along_axis(logits, jnp.expand_dims(labels, -1), axis=-1), -1)
            return jnp.mean(normalizer - picked) + 1e-4 * (normalizer**2).mean() + 0 * right
    """,
    "one-hot labels": """
        def loss(hidden, w, labels, mask):
            one_hot = jax.nn.one_hot(labels, w["head"].shape[1])
            logits = hidden @ w["head"]
            logits = 30 * jnp.tanh(logits / 30)
            logits -= w["bias"]
            return -jnp.sum(one_hot * jax.nn.log_softmax(logits, axis=-1)) / labels.size
    """,
    "by hand": """
        def loss(hidden, w, labels, mask):
            logits = hidden @ w["head"]
            largest = lax.stop_gradient(logits.max(-1, keepdims=True))
            shifted = logits - largest
            total = jnp.log(jnp.exp(shifted).sum(axis=-1))
            one_hot = jax.nn.one_hot(labels, shifted.shape[-1], dtype=shifted.dtype)
            return (total - (one_hot * shifted).sum(-1)).mean()
    """,
    "optax": """
        def loss(hidden, w, labels, mask):
            losses = optax.softmax_cross_entropy_with_integer_labels(
                logits=hidden @ w["head"],  # of every token
                labels=labels,
            )
            return jnp.where(mask > 0, losses, 0).mean()
    """,
    "in one expression": """
        def loss(hidden, w, labels, mask):
            with jax.named_scope("loss"):
                return optax.softmax_cross_entropy(hidden @ w["head"], jax.nn.one_hot(labels, 40)).mean()
    """,
}
BATCHED = {
    "einsum": """
        def loss(hidden, w, labels, mask):
            logits = jnp.einsum("vd,btd->btv", w["head"].T, hidden)
            logp = jax.nn.log_softmax(logits)
            return -(jnp.take_along_axis(logp, labels[:, :, None], axis=-1).squeeze(-1) * mask).mean()
    """,
    "shifted": """
        def loss(hidden, w, labels, mask):
            logits = hidden @ w["head"]
            logits = logits[:, :-1]
            logp = jax.nn.log_softmax(logits)
            targets = labels[:, 1:]
            nll = -jnp.take_along_axis(logp, targets[..., None], axis=-1)
            return nll.mean()
    """,
}
FLAT = {
    "arange": """
        def loss(hidden, w, labels, mask):
            logp = jax.nn.log_softmax(hidden @ w["head"])
            return -logp[jnp.arange(labels.shape[0]), labels].mean()
    """,
}


def chunked(text: str, chunks: int = 4) -> str:
    """A text whose first product with a head is computed in chunks."""
    file = as_file(HEAD + textwrap.dedent(text))
    products = [p for n in ast.walk(file.tree) if (p := product_of(file, n)) is not None]
    return edited(file.text, edits_of(plan(follow(file, products[0])), chunks))


def gradient(text: str, rows: tuple[int, ...]) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "prog.py", "exec"), names)
    keys = jax.random.split(jax.random.key(0), 4)
    hidden = jax.random.normal(keys[0], (*rows, 16))
    w = {"head": jax.random.normal(keys[1], (16, 40)), "bias": jax.random.normal(keys[2], (40,))}
    labels = jax.random.randint(keys[3], rows, 0, 40)
    mask = (labels % 3 > 0).astype(jnp.float32)
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.jit(jax.value_and_grad(names["loss"], argnums=(0, 1)))(hidden, w, labels, mask)


def has_whole_logits(text: str, rows: tuple[int, ...]) -> bool:
    names: dict[str, Any] = {}
    exec(compile(text, "prog.py", "exec"), names)
    arguments = [
        jax.ShapeDtypeStruct(s, t)
        for s, t in (((*rows, 16), "float32"), (rows, "int32"), (rows, "float32"))
    ]
    w = {
        "head": jax.ShapeDtypeStruct((16, 40), "float32"),
        "bias": jax.ShapeDtypeStruct((40,), "float32"),
    }
    hidden, labels, mask = arguments
    jaxpr = jax.make_jaxpr(jax.grad(names["loss"]))(hidden, w, labels, mask)
    return f"f32[{','.join(map(str, rows))},40]" in str(jaxpr)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        *((name, rows) for name in LOSSES for rows in ((3, 10), (22,))),
        *((name, (3, 10)) for name in BATCHED),
        *((name, (22,)) for name in FLAT),
    ],
)
def test_a_loss_in_chunks_has_the_same_value_and_gradient(name: str, rows: tuple[int, ...]) -> None:
    text = HEAD + textwrap.dedent({**LOSSES, **BATCHED, **FLAT}[name])
    after = chunked({**LOSSES, **BATCHED, **FLAT}[name])
    assert "in_chunks(of_rows, 4, " in after
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6),
        gradient(after, rows),
        gradient(text, rows),
    )
    assert has_whole_logits(text, rows)
    assert not has_whole_logits(after, rows)


def test_the_rewrite_reads_well() -> None:
    after = chunked(LOSSES["log_softmax"], 8)
    assert textwrap.dedent("""
        def loss(hidden, w, labels, mask):
            def of_rows(hidden, labels):
                logits = (hidden @ w["head"]).astype(jnp.float32)
                logp = jax.nn.log_softmax(logits)
                nll = -jnp.take_along_axis(logp, labels[..., None], axis=-1)[..., 0]
                return nll

            nll = in_chunks(of_rows, 8, hidden, labels)
            return (nll * mask).sum() / mask.sum()
    """) in after  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return jax.nn.log_softmax(logits), labels", "line 9 uses it whole"),
        ("return jax.nn.softmax(logits) @ other", "line 9 uses it whole"),
        ("return jax.nn.log_softmax(logits, axis=0).sum()", "line 9 uses it whole"),
        ("return sample(logits)", "line 9 uses it whole"),
        ("state.logits = logits\n    return 0", "line 9 assigns it in a way"),
        (
            "for i in range(3):\n        logits = logits + i\n    return logits.sum()",
            "line 10 assigns it in a way",
        ),
        ("x = jnp.sum(logits, axis=-1); return x", "line 9 cannot be moved"),
        ("return logits[:, 1:].sum() + logits.sum()", "in one place and not in another"),
    ],
)
def test_what_needs_all_rows_is_refused(body: str, why: str) -> None:
    with pytest.raises(UsedWhole, match=why):
        chunked(f"def loss(hidden, w, labels):\n    logits = hidden @ w\n    {body}\n")
