"""Losses in chunks on the virtual slice: the logits are not held any more."""

from __future__ import annotations

from changes.trying import edited, proposed, refused, situation_of
from running import Bench
from vtpu.changes.proposals.chunked_loss import PROPOSAL

TRAIN = """
import functools

import jax
import jax.numpy as jnp

BATCH, LENGTH, WIDTH, VOCAB = 8, 512, 128, 16384


def loss_fn(params, tokens):
    hidden = params["embed"][tokens]
    hidden = hidden + jnp.tanh(hidden @ params["mlp"])
    logits = (hidden @ params["head"]).astype(jnp.float32)
    logits, targets = logits[:, :-1], tokens[:, 1:]
    log_probs = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    return nll.mean()


@functools.partial(jax.jit, donate_argnums=0)
def step(params, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


params = {
    "embed": jnp.ones((VOCAB, WIDTH), jnp.bfloat16),
    "mlp": jnp.ones((WIDTH, WIDTH), jnp.bfloat16),
    "head": jnp.ones((WIDTH, VOCAB), jnp.bfloat16),
}
tokens = jnp.zeros((BATCH, LENGTH), jnp.int32)
params, loss = step(params, tokens)
print(loss.shape)
"""
SHIFTED = TRAIN.replace(
    "    logits, targets = logits[:, :-1], tokens[:, 1:]\n",
    "    targets = tokens[:, 1:]\n    logits = logits[:, :-1]\n",
)
SAMPLED = TRAIN.replace("log_probs = jax.nn.log_softmax(logits)", "log_probs = jnp.sort(logits)")


def test_the_logits_are_not_held(bench: Bench) -> None:
    before = bench.run(SHIFTED, on="v5e:1x1")
    changes, reasons = proposed(PROPOSAL, situation_of(bench, before))
    assert [c.title.partition(" in ")[2] for c in changes] == [
        "8 chunks of rows",
        "16 chunks of rows",
    ]
    assert not reasons
    assert len({c.group for c in changes}) == 1
    after = bench.run(edited(SHIFTED, changes[0].edits), on="v5e:1x1")
    assert after.program("jit_step").temp_bytes < before.program("jit_step").temp_bytes / 3


def test_logits_that_are_used_whole_are_refused(bench: Bench) -> None:
    assert refused(bench, PROPOSAL, SAMPLED)
