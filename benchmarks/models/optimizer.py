"""AdamW with gradients clipped by their global norm, the update that Llama 2's report describes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

B1, B2, EPSILON, DECAY, CLIP = 0.9, 0.95, 1e-8, 0.1, 1.0
RATE, WARM_UP, STEPS, LAST_SHARE = 3e-5, 0.1, 30, 0.1


def global_norm(tree: Any) -> jax.Array:
    """The length of all leaves as one vector."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))


def clip(gradients: Any) -> Any:
    """Gradients of a global norm of at most `CLIP`."""
    length = global_norm(gradients)
    return jax.tree.map(lambda g: jnp.where(length < CLIP, g, g / length * CLIP), gradients)


def update(state: Any, gradients: Any) -> Any:
    """The state after one step."""
    step = state["step"] + 1
    first = jax.tree.map(lambda m, g: _decay(m, g, B1), state["first"], gradients)
    second = jax.tree.map(lambda m, g: _decay(m, g * g, B2), state["second"], gradients)
    corrections = 1 - B1**step, 1 - B2**step
    rate = _learning_rate(state["step"])

    def move(weight: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        direction = m / corrections[0] / (jnp.sqrt(v / corrections[1]) + EPSILON)
        return (weight - rate * (direction + DECAY * weight)).astype(weight.dtype)

    params = jax.tree.map(move, state["params"], first, second)
    return {"params": params, "first": first, "second": second, "step": step}


def _decay(moment: jax.Array, value: jax.Array, keep: float) -> jax.Array:
    return (keep * moment + (1 - keep) * value).astype(moment.dtype)


def _learning_rate(step: jax.Array) -> jax.Array:
    """A linear warm-up, then half a cosine."""
    warm = WARM_UP * STEPS
    share = jnp.clip((step - warm) / (STEPS - warm), 0, 1)
    cosine = LAST_SHARE + (1 - LAST_SHARE) * (1 + jnp.cos(jnp.pi * share)) / 2
    return RATE * jnp.where(step < warm, (step + 1) / warm, cosine)
