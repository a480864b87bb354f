"""Whether a model, a run and a mesh go together, before anything is traced."""

from __future__ import annotations

from collections.abc import Iterator

import jax
from benchmarks.models.layers import Context
from benchmarks.models.sharding import BATCH, TENSOR
from benchmarks.models.weights import all_weights, is_weight


def check_together(c: Context) -> None:
    """Refuses what cannot be built.

    Raises:
        ValueError: the first reason.
    """
    for is_wrong, why in (*_doubts_of_attention(c), *_doubts_of_experts(c), *_doubts_of_batch(c)):
        if is_wrong:
            raise ValueError(why)
    _check_weights(c)


def _doubts_of_attention(c: Context) -> Iterator[tuple[bool, str]]:
    model, shards = c.model, c.layout.size(*TENSOR, "sequence")
    is_flash, is_kernel = c.run.attention == "old_flash", c.run.attention != "dot_product"
    yield (
        is_flash and bool(any(model.windows) or model.attention_cap or model.kv_rank),
        "attention = 'old_flash' has no windows, caps or latent heads; 'splash' has",
    )
    yield (
        is_flash and c.layout.size("context", "sequence") > 1,
        "attention = 'old_flash' takes whole sequences; 'splash' can spread them over context",
    )
    for heads in (model.query_heads, model.kv_heads):
        yield (
            is_kernel and heads % shards != 0,
            f"{heads} heads cannot be spread over {shards} devices of tensor axes",
        )
    yield (
        model.positions > 0 and c.run.sequence > model.positions,
        f"sequence = {c.run.sequence} is longer than the model's positions = {model.positions}",
    )


def _doubts_of_experts(c: Context) -> Iterator[tuple[bool, str]]:
    shards = c.layout.size("expert")
    yield (
        c.run.capacity_factor is not None and c.run.moe != "dense",
        f"capacity_factor is for moe = 'dense', and it is {c.run.moe!r}",
    )
    odd = [axis for axis in (*TENSOR[1:], "fsdp_transpose") if c.layout.size(axis) > 1]
    yield (
        c.model.experts > 0 and c.run.moe != "dense" and bool(odd),
        f"moe = {c.run.moe!r} takes whole experts or parts over tensor, and no mesh of {', '.join(odd)}",
    )
    yield (
        c.model.experts > 0 and c.model.experts % shards != 0,
        f"{c.model.experts} experts cannot be spread over {shards} devices",
    )


def _doubts_of_batch(c: Context) -> Iterator[tuple[bool, str]]:
    size = c.run.per_device_batch * c.layout.mesh.size
    yield size != int(size), f"{size} sequences are no whole batch"
    shards = c.layout.size(*BATCH)
    yield int(size) % shards != 0, f"{size} sequences cannot be spread over {shards} devices"


def _check_weights(c: Context) -> None:
    tree = all_weights(c.model, scan_axis=0)
    for path, weight in jax.tree.leaves_with_path(tree, is_leaf=is_weight):
        spec = c.layout.spec(*weight.axes)
        for size, axes in zip(weight.shape, spec, strict=True):
            names = (axes,) if isinstance(axes, str) else axes or ()
            if size % c.layout.size(*names):
                name = jax.tree_util.keystr(path, simple=True, separator=".")
                raise ValueError(
                    f"{name} {list(weight.shape)}: {size} cannot be spread over {c.layout.size(*names)} "
                    f"devices of {', '.join(names)}"
                )
