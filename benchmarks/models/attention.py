"""Causal attention: by the Pallas kernels of jax under `shard_map`, or by dot products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.layers import Context, dense
from benchmarks.models.projections import HEADS, project
from benchmarks.models.remat import name
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import NamedSharding

_SHARDED_HEADS = ("tensor", "tensor_transpose", "sequence", "tensor_sequence")


def attention(c: Context, weights: Any, x: jax.Array, batch: Any, window: int) -> jax.Array:
    """The attention part of a layer on `x[batch, length, embed]`. `window` 0: all earlier tokens."""
    parts = project(c, weights, x, batch["positions"])
    query, key, value = (
        name(c.layout.constrain(part, *HEADS), f"{which}_proj")
        for which, part in zip(("query", "key", "value"), parts, strict=True)
    )
    found = _KINDS[c.run.attention](c, query, key, value, batch["segments"], window)
    found = c.layout.constrain(found, *HEADS)
    return name(dense(c, weights["out"], found, num_inputs=2), "out_proj")


def _dot_product(
    c: Context, query: jax.Array, key: jax.Array, value: jax.Array, segments: jax.Array, window: int
) -> jax.Array:
    """Attention whose scores stand in memory."""
    batch, length, _, dim = query.shape
    grouped = query.reshape(batch, length, c.model.kv_heads, -1, dim)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", grouped, key).astype(jnp.float32)
    row, column = jnp.arange(length)[:, None], jnp.arange(length)[None]
    seen = row >= column
    if window:
        seen &= row - column < window
    seen = seen & (segments[:, :, None] == segments[:, None, :])
    if c.model.attention_cap:
        scores = c.model.attention_cap * jnp.tanh(scores / c.model.attention_cap)
    scores = jnp.where(seen[:, None, None], scores, -0.7 * float(jnp.finfo(jnp.float32).max))
    shares = c.cast(jax.nn.softmax(scores, axis=-1))
    return jnp.einsum("bkgqs,bskd->bqkgd", shares, value).reshape(*query.shape[:3], -1)


def _splash(
    c: Context, query: jax.Array, key: jax.Array, value: jax.Array, segments: jax.Array, window: int
) -> jax.Array:
    """Splash attention; queries may be spread over the length, keys and values are then gathered."""
    layout, length = c.layout, query.shape[1]
    kernel = splash.make_splash_mha(
        mask=masks.MultiHeadMask([_mask(length, window)] * c.model.query_heads),
        head_shards=layout.size(*_SHARDED_HEADS),
        q_seq_shards=layout.size("context"),
        block_sizes=_splash_blocks(c, length),
        attn_logits_soft_cap=c.model.attention_cap or None,
        residual_checkpoint_name="context",
    )
    heads, spread = "act_heads", "act_length"
    kernel_specs = kernel.manual_sharding_spec(
        NamedSharding(layout.mesh, layout.spec(heads, spread))
    )

    def attend(q: Any, k: Any, v: Any, q_segments: Any, kv_segments: Any, kernel: Any) -> Any:
        return jax.vmap(kernel)(q, k, v, segment_ids=splash.SegmentIds(q_segments, kv_segments))

    queries = layout.spec("batch", heads, spread, None)
    whole = layout.spec("batch", heads, None, None)
    rows, columns = layout.spec("batch", spread), layout.spec("batch", None)
    in_specs = (queries, whole, whole, rows, columns, kernel_specs)
    attend_shard = layout.per_shard(attend, in_specs, queries)
    found = attend_shard(*_by_head(query, key, value), segments, segments, kernel)
    return jnp.swapaxes(found, 1, 2)


def _by_head(*parts: jax.Array) -> list[jax.Array]:
    """`[batch, heads, length, numbers]`, as kernels have it."""
    return [jnp.swapaxes(part, 1, 2) for part in parts]


def _mask(length: int, window: int) -> masks.Mask:
    mask = masks.CausalMask((length, length))
    if not window:
        return mask
    return mask & masks.LocalMask((length, length), (window - 1, window - 1), offset=0)


def _splash_blocks(c: Context, length: int) -> splash.BlockSizes:
    given, queries = c.run.blocks, length // c.layout.size("context")
    one_kernel = given.use_fused_bwd_kernel
    return splash.BlockSizes(
        block_q=min(given.q, queries),
        block_kv=min(given.kv, length),
        block_kv_compute=min(given.kv_compute, length),
        block_q_dkv=min(given.q_dkv, queries),
        block_kv_dkv=min(given.kv_dkv, length),
        block_kv_dkv_compute=min(given.kv_dkv_compute, length),
        block_q_dq=None if one_kernel else min(given.q_dq, queries),
        block_kv_dq=None if one_kernel else min(given.kv_dq, length),
        use_fused_bwd_kernel=one_kernel,
    )


def _flash(
    c: Context, query: jax.Array, key: jax.Array, value: jax.Array, segments: jax.Array, window: int
) -> jax.Array:
    """The older kernel, with the block sizes that MaxText gave it in 2023. It sees all tokens."""
    assert not window
    layout = c.layout
    spec = layout.spec("batch", "act_heads", None, None)
    groups = c.model.query_heads // c.model.kv_heads

    def attend(q: Any, k: Any, v: Any, segments: Any) -> Any:
        return flash.flash_attention(
            q,
            k,
            v,
            segment_ids=flash.SegmentIds(segments, segments),
            causal=True,
            block_sizes=_flash_blocks(q.shape[0], q.shape[2]),
        )

    key, value = (jnp.repeat(x, groups, axis=2) if groups > 1 else x for x in (key, value))
    in_specs = (spec, spec, spec, layout.spec("batch", None))
    found = layout.per_shard(attend, in_specs, spec)(*_by_head(query, key, value), segments)
    return name(jnp.swapaxes(found, 1, 2), "context")


def _flash_blocks(batch: int, length: int) -> flash.BlockSizes:
    """From `MaxText/layers/attentions.py` at commit 76bd53b0f."""
    half, whole = min(512, length), min(1024, length)
    return flash.BlockSizes(
        block_q=half,
        block_k_major=half,
        block_k=half,
        block_b=min(2, batch),
        block_q_major_dkv=half,
        block_k_major_dkv=half,
        block_q_dkv=half,
        block_k_dkv=half,
        block_q_dq=whole,
        block_k_dq=min(256, length),
        block_k_major_dq=half,
    )


_KINDS = {"dot_product": _dot_product, "splash": _splash, "old_flash": _flash}
