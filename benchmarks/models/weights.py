"""The weights of a model: shapes, and the logical axes of their dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from benchmarks.models.model import Model

Tree = dict[str, Any]
Axes = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """One array. `start` is what it is filled with: ones, zeros, or normal numbers.

    Those have the variance 1 / `fan_in`.
    """

    shape: tuple[int, ...]
    axes: Axes
    fan_in: int = 1
    start: Literal["normal", "ones", "zeros"] = "normal"

    def stacked(self, count: int, axis: int) -> Weight:
        """`count` of it along a new dimension."""
        at = min(axis, len(self.shape))
        shape = (*self.shape[:at], count, *self.shape[at:])
        return Weight(shape, (*self.axes[:at], None, *self.axes[at:]), self.fan_in, self.start)


def is_weight(value: object) -> bool:
    """Whether a node of a tree of weights is a leaf."""
    return isinstance(value, Weight)


def all_weights(model: Model, *, scan_axis: int | None) -> Tree:
    """The tree of a model's weights.

    `scan_axis` is the dimension that counts layers in stacked weights; None: each layer has its own.
    """
    embed, vocab = model.embed, model.vocab
    tree: Tree = {"embedding": Weight((vocab, embed), ("vocab", "embed"))}
    if model.positions:
        tree["positions"] = Weight((model.positions, embed), ("vocab", "embed"))
    for name, count, layer in layer_groups(model):
        tree[name] = _repeat(layer, count, scan_axis)
    tree["last_norm"] = _norm(model, embed, "norm")
    if not model.tied_embedding:
        tree["logits"] = Weight((embed, vocab), ("embed", "vocab"), embed)
    return tree


def layer_groups(model: Model) -> list[tuple[str, int, Tree]]:
    """The kinds of layers in their order: name, number of cycles, weights of one cycle.

    A cycle has one layer per window, by number.
    """
    cycle = len(model.windows)

    def weights(*, with_experts: bool) -> Tree:
        layer = _layer(model, with_experts=with_experts)
        return {str(number): layer for number in range(cycle)}

    groups = [
        ("dense_layers", model.dense_layers // cycle, weights(with_experts=False)),
        (
            "layers",
            (model.layers - model.dense_layers) // cycle,
            weights(with_experts=bool(model.experts)),
        ),
    ]
    return [group for group in groups if group[1]]


def count_parameters(model: Model) -> int:
    """The number of a model's parameters."""
    leaves = jax.tree.leaves(all_weights(model, scan_axis=0), is_leaf=is_weight)
    return sum(math.prod(weight.shape) for weight in leaves)


def initial_value(weight: Weight, key: jax.Array, dtype: str) -> jax.Array:
    """What training starts from."""
    if weight.start == "ones":
        return jnp.ones(weight.shape, dtype)
    if weight.start == "zeros":
        return jnp.zeros(weight.shape, dtype)
    return jax.random.normal(key, weight.shape, dtype) * weight.fan_in**-0.5


def _repeat(layer: Tree, count: int, scan_axis: int | None) -> Tree:
    if scan_axis is None:
        return {str(number): layer for number in range(count)}
    return jax.tree.map(lambda weight: weight.stacked(count, scan_axis), layer, is_leaf=is_weight)


def _layer(model: Model, *, with_experts: bool) -> Tree:
    names = ["attention_norm"]
    names += ["mlp_norm"] if model.block == "sequential" else []
    names += ["attention_post_norm", "mlp_post_norm"] if model.post_norms else []
    tree: Tree = {name: _norm(model, model.embed, "norm") for name in names}
    tree["attention"] = _attention(model)
    if with_experts:
        tree["experts"] = _experts(model)
    width = model.shared_experts * model.width_of_expert if with_experts else model.mlp
    if width:
        tree["mlp"] = _mlp(model, width)
    return tree


def _attention(model: Model) -> Tree:
    dim = model.head_dim
    tree = _latent(model) if model.kv_rank else _heads(model)
    for name in model.head_norms:
        tree[f"{name}_norm"] = _norm(model, dim, None)
    out = (model.query_heads, model.value_dim or dim, model.embed)
    tree["out"] = _dense(model, out, ("heads", None, "embed"), out[0] * out[1], num_outputs=1)
    return tree


def _heads(model: Model) -> Tree:
    """Queries, keys, values. Attention does not scale its scores: the weights of queries do."""
    embed, dim = model.embed, model.head_dim
    if model.fused_qkv:
        shape = (embed, 3, model.query_heads, dim)
        return {"qkv": _dense(model, shape, ("embed", None, "heads", None), embed, num_outputs=3)}
    axes = ("embed", "heads", None)
    tree = {"query": _dense(model, (embed, model.query_heads, dim), axes, embed * dim)}
    for name in ("key", "value"):
        tree[name] = _dense(model, (embed, model.kv_heads, dim), axes, embed)
    return tree


def _latent(model: Model) -> Tree:
    embed, heads = model.embed, model.query_heads
    query = model.head_dim + model.rope_dim
    source = model.query_rank or embed
    axis = "rank" if model.query_rank else "embed"
    tree: Tree = {
        "query": _dense(model, (source, heads, query), (axis, "heads", None), source * query)
    }
    if model.query_rank:
        tree["query_in"] = _dense(model, (embed, source), ("embed", "rank"), embed, num_outputs=1)
        tree["query_rank_norm"] = _norm(model, source, "norm")
    rank = model.kv_rank
    into, out = rank + model.rope_dim, model.head_dim + model.value_dim
    tree["kv_in"] = _dense(model, (embed, into), ("embed", "rank"), embed, num_outputs=1)
    tree["kv_rank_norm"] = _norm(model, rank, "norm")
    tree["kv"] = _dense(model, (rank, heads, out), ("rank", "heads", None), rank)
    return tree


def _mlp(model: Model, width: int) -> Tree:
    embed = model.embed
    names = ("in_0", "in_1") if model.gated else ("in",)
    tree: Tree = {name: _dense(model, (embed, width), ("embed", "mlp"), embed, 1) for name in names}
    tree["out"] = _dense(model, (width, embed), ("mlp", "embed"), width, num_outputs=1)
    return tree


def _experts(model: Model) -> Tree:
    embed, width, count = model.embed, model.width_of_expert, model.experts
    into = Weight((count, embed, width), ("experts", "embed_of_expert", "mlp"), embed)
    out = Weight((count, width, embed), ("experts", "mlp", "embed_of_expert"), width)
    gate = Weight((embed, count), ("embed", None), embed)
    names = ("in_0", "in_1") if model.gated else ("in",)
    return {"gate": gate, **dict.fromkeys(names, into), "out": out}


def _dense(
    model: Model, shape: tuple[int, ...], axes: Axes, fan_in: int, num_outputs: int = 2
) -> Tree:
    """A matrix, with a bias of its last `num_outputs` dimensions where the model has biases."""
    tree: Tree = {"kernel": Weight(shape, axes, fan_in)}
    if model.biases:
        tree["bias"] = Weight(shape[-num_outputs:], axes[-num_outputs:], start="zeros")
    return tree


def _norm(model: Model, width: int, axis: str | None) -> Tree:
    tree: Tree = {"scale": Weight((width,), (axis,), start="ones")}
    if model.norm == "layer":
        tree["bias"] = Weight((width,), (axis,), start="zeros")
    return tree
