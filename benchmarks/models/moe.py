"""Mixtures of experts: every token goes to the few experts that a gate chooses for it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.layers import ACTIVATIONS, Context
from benchmarks.models.remat import name
from jax.experimental.pallas.ops.tpu import megablox

_TILE_ROWS, _TILE = 512, 1024  # MaxText's tile_batch_seq; tile_activation_dim and tile_weight_dim
_BALANCE = 0.01  # MaxText's load_balance_loss_weight
_INTO = ("experts", None, "mlp")
_OUT = ("experts", "mlp", None)

Multiply = Callable[[jax.Array], jax.Array]


def mixture(c: Context, weights: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The experts' part of a layer on `x[batch, length, embed]`, and the loss of their imbalance.

    Only the forms that may drop tokens have such a loss, as in MaxText.
    """
    gates = x @ c.cast(weights["gate"])
    if c.run.moe != "dense":
        return _sparse(c, weights, x, gates), jnp.zeros((), jnp.float32)
    return (
        _all_experts(c, weights, x, gates)
        if c.run.capacity_factor is None
        else _up_to_capacity(c, weights, x, gates)
    )


def _choose(c: Context, gates: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The shares and numbers of the experts of each token, `[batch, length, experts_per_token]`."""
    best, chosen = jax.lax.top_k(gates, c.model.experts_per_token)
    return c.cast(jax.nn.softmax(best.astype(jnp.float32), axis=-1)), chosen


def _kernels(c: Context, weights: Any) -> list[jax.Array]:
    names = ("in_0", "in_1", "out") if c.model.gated else ("in", "out")
    return [c.cast(weights[kernel]) for kernel in names]


def _hidden(c: Context, kernels: list[jax.Array], into: Multiply) -> jax.Array:
    """The activations between an expert's matrices; `into` multiplies with one of them."""
    activate = ACTIVATIONS[c.model.activation]
    if not c.model.gated:
        return activate(name(into(kernels[0]), "mlpwi"))
    hidden = activate(name(into(kernels[0]), "mlpwi_0"))
    return hidden * name(into(kernels[1]), "mlpwi_1")


# ---- without drops: rows sorted by expert, one grouped product --------------------------------------


def _sparse(c: Context, weights: Any, x: jax.Array, gates: jax.Array) -> jax.Array:
    layout = c.layout
    rows = layout.spec("batch", "act_length", None)
    into = layout.spec(*_INTO)
    kernels = _kernels(c, weights)
    in_specs = (rows, rows, [into] * (len(kernels) - 1) + [layout.spec(*_OUT)])
    out_spec = layout.spec("batch", "act_length", "act_embed")
    return layout.per_shard(functools.partial(_sparse_shard, c), in_specs, out_spec)(
        x, gates, kernels
    )


def _sparse_shard(
    c: Context, x: jax.Array, gates: jax.Array, kernels: list[jax.Array]
) -> jax.Array:
    """What one device does with its tokens and its experts."""
    shares, chosen = _choose(c, gates)
    owners = chosen.reshape(-1)
    order = jnp.argsort(owners)
    rows = x.reshape(-1, x.shape[-1])[order // c.model.experts_per_token]
    sizes = jnp.bincount(owners, length=c.model.experts)
    if c.layout.size("expert") > 1:
        found = _elsewhere(c, rows, sizes, kernels)
    else:
        found = _experts(c, rows, sizes, kernels)
    back = found[jnp.argsort(order)].reshape(-1, c.model.experts_per_token, found.shape[-1])
    shares = shares.reshape(-1, c.model.experts_per_token)
    summed = jnp.einsum("tke,tk->te", back.astype(jnp.float32), shares.astype(jnp.float32))
    return c.cast(summed).reshape(*x.shape[:2], -1)


def _experts(c: Context, rows: jax.Array, sizes: jax.Array, kernels: list[jax.Array]) -> jax.Array:
    """Rows sorted by expert through the experts; `sizes` says how many rows each has."""
    multiply = _MULTIPLY[c.run.moe]
    hidden = _hidden(c, kernels, lambda kernel: multiply(rows, kernel, sizes))
    found = name(multiply(hidden, kernels[-1], sizes), "mlpwo")
    if c.layout.size("tensor") > 1:
        found = jax.lax.psum_scatter(found, "tensor", scatter_dimension=1, tiled=True)
    return found


def _elsewhere(
    c: Context, rows: jax.Array, sizes: jax.Array, kernels: list[jax.Array]
) -> jax.Array:
    """The same where experts are spread over devices: rows go to their experts and come back.

    The buffer that receives them has room for the rows of all, as in MaxText.
    """
    shards = c.layout.size("expert")
    per_shard = c.model.experts // shards
    here = jax.lax.axis_index("expert")
    moved = jax.lax.all_gather(sizes.reshape(shards, per_shard).sum(1), "expert")  # from, to
    received = _exchange(rows, shards * rows.shape[0], moved, here)
    all_sizes = jax.lax.all_gather(sizes, "expert")
    own = jax.lax.dynamic_slice_in_dim(all_sizes, here * per_shard, per_shard, axis=1)
    owners = jnp.repeat(
        jnp.tile(jnp.arange(per_shard), shards), own.ravel(), total_repeat_length=received.shape[0]
    )
    order = jnp.argsort(owners)
    found = _experts(c, received[order], own.sum(0), kernels)
    return _exchange(found[jnp.argsort(order)], rows.shape[0], moved.T, here)


def _exchange(rows: jax.Array, room: int, moved: jax.Array, here: jax.Array) -> jax.Array:
    """An all-to-all of which device i sends `moved[i, j]` rows to j. `room`: rows of the result."""
    starts = jnp.cumsum(moved[here]) - moved[here]
    landings = (jnp.cumsum(moved, axis=0) - moved)[here]
    empty = jnp.zeros((room, rows.shape[1]), rows.dtype)
    sent, received = moved[here], moved[:, here]
    return jax.lax.ragged_all_to_all(
        rows, empty, starts, sent, landings, received, axis_name="expert"
    )


def _megablox(rows: jax.Array, kernel: jax.Array, sizes: jax.Array) -> jax.Array:
    """jax's Pallas kernel, on whole tiles of rows. Backward it takes the same tiles the other way round."""
    count, tile = rows.shape[0], min(_TILE, *kernel.shape[1:])
    padded = jnp.pad(rows, ((0, -count % _TILE_ROWS), (0, 0)))
    tiles = (_TILE_ROWS, tile, tile)
    return megablox.gmm(padded, kernel, sizes, rows.dtype, tiles)[:count]


def _ragged_dot(rows: jax.Array, kernel: jax.Array, sizes: jax.Array) -> jax.Array:
    return jax.lax.ragged_dot(rows, kernel, sizes, preferred_element_type=rows.dtype)


_MULTIPLY = {"megablox": _megablox, "ragged_dot": _ragged_dot}

# ---- dense: einsums ---------------------------------------------------------------------------------


def _all_experts(
    c: Context, weights: Any, x: jax.Array, gates: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Every token through every expert; what was not chosen has no share."""
    kernels = _kernels(c, weights)
    hidden = _hidden(c, kernels, lambda kernel: jnp.einsum("bsm,emh->bseh", x, kernel))
    found = name(jnp.einsum("bseh,ehm->bsem", hidden, kernels[-1]), "mlpwo")
    y = jnp.einsum("bsem,bse->bsm", found, _shares_by_expert(c, *_choose(c, gates)))
    return y, jnp.zeros((), jnp.float32)


def _up_to_capacity(
    c: Context, weights: Any, x: jax.Array, gates: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Each expert takes a fixed number of each sequence's tokens, and the rest are dropped."""
    shares, chosen = _choose(c, gates)
    combine = _places(c, shares, chosen)
    combine = c.layout.constrain(combine, "batch", "act_length", None, None)
    kernels = [
        c.layout.constrain(kernel, *axes) if c.layout.size("expert") > 1 else kernel
        for kernel, axes in zip(
            _kernels(c, weights), (_INTO, _INTO, _OUT)[-2 - c.model.gated :], strict=True
        )
    ]
    sent = jnp.einsum("bsm,bsec->ebcm", x, c.cast(combine != 0))
    sent = c.layout.constrain(sent, "act_experts", "batch_of_expert", None, "act_embed")
    hidden = _hidden(c, kernels, lambda kernel: jnp.einsum("ebcm,emh->ebch", sent, kernel))
    hidden = c.layout.constrain(hidden, "act_experts", "batch_of_expert", None, "act_mlp")
    found = jnp.einsum("ebch,ehm->ebcm", hidden, kernels[-1])
    found = c.layout.constrain(found, "act_experts", "batch_of_expert", None, "act_embed")
    y = jnp.einsum("ebcm,bsec->bsm", name(found, "mlpwo"), combine)
    return y, _imbalance(c, gates, chosen)


def _places(c: Context, shares: jax.Array, chosen: jax.Array) -> jax.Array:
    """`[batch, length, expert, place]`: the share of a token at its place in an expert, else 0."""
    assert c.run.capacity_factor is not None
    batch, length, k = chosen.shape
    experts = c.model.experts
    factor = c.run.capacity_factor
    capacity = int(max(math.ceil(length * k / experts) * factor, factor))
    is_chosen = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)
    queued = jnp.cumsum(is_chosen.reshape(batch, -1, experts), axis=1).reshape(is_chosen.shape)
    place = jnp.sum(is_chosen * jnp.where(queued <= capacity, queued, 0), axis=2)
    is_there = jax.nn.one_hot(place - 1, capacity, dtype=shares.dtype)  # of -1: all zeros
    return _shares_by_expert(c, shares, chosen)[..., None] * is_there


def _shares_by_expert(c: Context, shares: jax.Array, chosen: jax.Array) -> jax.Array:
    one_hot = jax.nn.one_hot(chosen, c.model.experts, dtype=shares.dtype)
    return jnp.sum(one_hot * shares[..., None], axis=2)


def _imbalance(c: Context, gates: jax.Array, chosen: jax.Array) -> jax.Array:
    """Large where the experts that get most tokens have the largest gates."""
    probabilities = jax.nn.softmax(gates.astype(jnp.float32), axis=-1).mean(1)
    density = jax.nn.one_hot(chosen, c.model.experts).sum(2).mean(1)
    return jnp.mean(density * probabilities) * c.model.experts**2 * _BALANCE
