"""From tokens to logits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.attention import attention
from benchmarks.models.layers import HIDDEN, Context, mlp, norm
from benchmarks.models.moe import mixture
from benchmarks.models.remat import name, rematerialize
from benchmarks.models.weights import layer_groups

EMBEDDED = ("batch", "act_length", "act_embed")


def logits_of(c: Context, params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
    """Logits `[batch, length, vocab]` in float32, and the loss of unbalanced experts."""
    x = _embed(c, params, batch)
    balance = jnp.zeros((), jnp.float32)
    for group, count, _ in layer_groups(c.model):
        x, added = _layers(c, params[group], x, batch, count)
        balance += added
    return _logits(c, params, norm(c, params["last_norm"], x)), balance / c.model.layers


def _embed(c: Context, params: Any, batch: Any) -> jax.Array:
    tokens, table = batch["inputs"], c.cast(params["embedding"])
    if c.run.iota_embed:
        one_hot = c.cast(tokens[..., None] == jnp.arange(c.model.vocab))
        x = jnp.dot(one_hot, table)
    else:
        x = table[tokens]
    x = c.layout.constrain(x, *EMBEDDED)
    return x + c.cast(params["positions"])[batch["positions"]] if c.model.positions else x


def _layers(
    c: Context, weights: Any, x: jax.Array, batch: Any, count: int
) -> tuple[jax.Array, jax.Array]:
    """All layers of one kind, one cycle after the other."""

    def cycle(x: jax.Array, weights: Any) -> tuple[jax.Array, jax.Array]:
        total = jnp.zeros((), jnp.float32)
        for number, window in enumerate(c.model.windows):
            x, loss = _layer(c, weights[str(number)], x, batch, window)
            total += loss
        return x, total

    kept = rematerialize(c.run, cycle)
    if c.run.scan_layers:
        axis = c.run.scan_axis
        first = jax.tree.map(lambda w: jnp.moveaxis(w, min(axis, w.ndim - 1), 0), weights)
        x, losses = jax.lax.scan(kept, x, first)
        return x, losses.sum()
    total = jnp.zeros((), jnp.float32)
    for number in range(count):
        x, loss = kept(x, weights[str(number)])
        total += loss
    return x, total


def _layer(
    c: Context, weights: Any, x: jax.Array, batch: Any, window: int
) -> tuple[jax.Array, jax.Array]:
    """One layer, and the loss of its imbalance."""
    x = name(c.layout.constrain(x, *HIDDEN), "decoder_layer_input")
    normed = c.layout.constrain(norm(c, weights["attention_norm"], x), *HIDDEN)
    attended = attention(c, weights["attention"], normed, batch, window)
    attended = c.layout.constrain(_post_norm(c, weights, "attention", attended), *HIDDEN)
    if c.model.block == "sequential":
        x += attended
        normed = c.layout.constrain(norm(c, weights["mlp_norm"], x), *HIDDEN)
    added, loss = _feed_forward(c, weights, normed)
    added = c.layout.constrain(_post_norm(c, weights, "mlp", added), *HIDDEN)
    if c.model.block == "parallel":
        added += attended
    return c.layout.constrain(added + x, *HIDDEN), loss


def _post_norm(c: Context, weights: Any, part: str, x: jax.Array) -> jax.Array:
    return norm(c, weights[f"{part}_post_norm"], x) if c.model.post_norms else x


def _feed_forward(c: Context, weights: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The MLP or the experts of a layer, and the loss of their imbalance."""
    if "experts" not in weights:
        return mlp(c, weights["mlp"], x), jnp.zeros((), jnp.float32)
    y, loss = mixture(c, weights["experts"], x)
    return y + mlp(c, weights["mlp"], x) if "mlp" in weights else y, loss


def _logits(c: Context, params: Any, x: jax.Array) -> jax.Array:
    dtype = "float32" if c.model.logits_in_float32 else c.model.compute_dtype
    x = x.astype(dtype)
    if c.model.tied_embedding:
        logits = jnp.dot(x, params["embedding"].astype(dtype).T) / c.model.embed**0.5
    else:
        logits = jnp.dot(x, params["logits"].astype(dtype))
    if cap := c.model.logits_cap:
        logits = cap * jnp.tanh(logits / cap)
    logits = c.layout.constrain(logits, "batch", "act_length", "act_vocab")
    return logits.astype(jnp.float32)
