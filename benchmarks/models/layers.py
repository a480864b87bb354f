"""Parts of a decoder layer: norms, dense layers, rotary positions, the MLP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.model import Model
from benchmarks.models.remat import name
from benchmarks.models.run import Run
from benchmarks.models.sharding import Layout

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
}
HIDDEN = ("batch", "act_norm_length", "act_embed")


@dataclass(frozen=True, slots=True)
class Context:
    """What every part of the step looks at."""

    model: Model
    run: Run
    layout: Layout

    def cast(self, weight: jax.Array) -> jax.Array:
        """A weight in the type that is computed with: here, in the layer, so that a gather moves that."""
        return weight.astype(self.model.compute_dtype)


def norm(c: Context, weights: Any, x: jax.Array) -> jax.Array:
    """RMS or layer norm over the last dimension, in float32."""
    wide = x.astype(jnp.float32)
    if c.model.norm == "layer":
        wide -= wide.mean(-1, keepdims=True)
    variance = jnp.mean(jax.lax.square(wide), -1, keepdims=True)
    y = c.cast(wide * jax.lax.rsqrt(variance + c.model.epsilon)) * c.cast(weights["scale"])
    return y + c.cast(weights["bias"]) if "bias" in weights else y


def dense(c: Context, weights: Any, x: jax.Array, num_inputs: int = 1) -> jax.Array:
    """The product with a matrix over the last `num_inputs` dimensions, and its bias if it has one."""
    axes = tuple(range(x.ndim - num_inputs, x.ndim)), tuple(range(num_inputs))
    y = jax.lax.dot_general(x, c.cast(weights["kernel"]), (axes, ((), ())))
    return y + c.cast(weights["bias"]) if "bias" in weights else y


def rotate(c: Context, x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary positions on `x[batch, length, heads, head_dim]`."""
    if c.model.rope == "none":
        return x
    half = jnp.arange(c.model.rotated_dim // 2, dtype=jnp.float32) / (c.model.rotated_dim // 2)
    timescale = c.model.rope_timescale**half
    return _ROTATIONS[c.model.rope](c, x, positions[:, :, None, None], timescale)


def _by_halves(c: Context, x: jax.Array, positions: jax.Array, timescale: jax.Array) -> jax.Array:
    sin, cos = (c.cast(wave(positions / timescale)) for wave in (jnp.sin, jnp.cos))
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _by_pairs(c: Context, x: jax.Array, positions: jax.Array, timescale: jax.Array) -> jax.Array:
    sin, cos = (wave(positions / timescale) for wave in (jnp.sin, jnp.cos))
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    rotated = c.cast(first * cos - second * sin), c.cast(second * cos + first * sin)
    return jnp.stack(rotated, axis=-1).reshape(x.shape)


def _by_shifts(c: Context, x: jax.Array, positions: jax.Array, timescale: jax.Array) -> jax.Array:
    """The pairs of neighbours without strided access: the partner of each comes from a shift by one."""
    angle = positions / jnp.repeat(timescale, 2)
    is_odd = jnp.arange(x.shape[-1]) % 2 == 1
    partner = jnp.where(is_odd, jnp.roll(x, 1, -1), jnp.roll(x, -1, -1))
    sign = jnp.where(is_odd, 1, -1)
    return c.cast(x * jnp.cos(angle) + partner * jnp.sin(angle) * sign)


_ROTATIONS = {"halves": _by_halves, "pairs": _by_pairs, "shifts": _by_shifts}


def mlp(c: Context, weights: Any, x: jax.Array) -> jax.Array:
    """The MLP, with one matrix in or a gated pair of them."""
    activate = ACTIVATIONS[c.model.activation]
    if "in" in weights:
        hidden = activate(name(dense(c, weights["in"], x), "mlpwi"))
    else:
        hidden = activate(name(dense(c, weights["in_0"], x), "mlpwi_0"))
        hidden *= name(dense(c, weights["in_1"], x), "mlpwi_1")
    hidden = c.layout.constrain(hidden, "batch", "act_length", "act_mlp")
    return name(dense(c, weights["out"], hidden), "mlpwo")
