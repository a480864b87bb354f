"""Queries, keys and values of a layer, each `[batch, length, heads, numbers]`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.layers import Context, dense, norm, rotate
from benchmarks.models.remat import name

HEADS = ("batch", "act_length", "act_heads", None)

Parts = tuple[jax.Array, jax.Array, jax.Array]


def project(c: Context, weights: Any, x: jax.Array, positions: jax.Array) -> Parts:
    """Query, key and value, normed and rotated as the model says."""
    if c.model.kv_rank:
        return _latent(c, weights, x, positions)
    query, key, value = _heads(c, weights, x)
    if c.model.norm_after_rope:
        query, key = rotate(c, query, positions), rotate(c, key, positions)
        return _normed(c, weights, query, key, value)
    query, key, value = _normed(c, weights, query, key, value)
    return rotate(c, query, positions), rotate(c, key, positions), value


def _heads(c: Context, weights: Any, x: jax.Array) -> Parts:
    if not c.model.fused_qkv:
        query, key, value = (dense(c, weights[part], x) for part in ("query", "key", "value"))
        return query, key, value
    fused = name(dense(c, weights["qkv"], x), "qkv_proj")
    query = fused[:, :, 0] * c.model.head_dim**-0.5
    return query, fused[:, :, 1], fused[:, :, 2]


def _normed(c: Context, weights: Any, *parts: jax.Array) -> Parts:
    query, key, value = (
        norm(c, weights[f"{which}_norm"], part) if which in c.model.head_norms else part
        for which, part in zip(("query", "key", "value"), parts, strict=True)
    )
    return query, key, value


def _latent(c: Context, weights: Any, x: jax.Array, positions: jax.Array) -> Parts:
    """Multi-head latent attention as DeepSeek's reports describe it, unfolded for training.

    The rotated numbers of keys are the same for all heads.
    """
    source = x
    if c.model.query_rank:
        source = norm(c, weights["query_rank_norm"], dense(c, weights["query_in"], x))
    still, turned = jnp.split(dense(c, weights["query"], source), [c.model.head_dim], axis=-1)
    query = jnp.concatenate([still, rotate(c, turned, positions)], axis=-1)
    low, shared = jnp.split(dense(c, weights["kv_in"], x), [c.model.kv_rank], axis=-1)
    kv = dense(c, weights["kv"], norm(c, weights["kv_rank_norm"], low))
    still, value = jnp.split(kv, [c.model.head_dim], axis=-1)
    turned = rotate(c, shared[:, :, None], positions)
    turned = jnp.broadcast_to(turned, (*still.shape[:3], c.model.rope_dim))
    return query, jnp.concatenate([still, turned], axis=-1), value
