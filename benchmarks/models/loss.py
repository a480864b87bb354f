"""Cross entropy with a gradient of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_vjp
def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Of float32 `logits[..., vocab]` and one-hot `targets` of the same shape."""
    return _forward(logits, targets)[0]


def _forward(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, Any]:
    """MaxText's, that saves the exponentials: what of it is kept in memory is the compiler's choice."""
    shifted = logits - logits.max(-1, keepdims=True)
    powers = jnp.exp(shifted)
    total = powers.sum(-1, keepdims=True)
    return -jnp.sum(targets * (shifted - jnp.log(total)), -1), (targets, powers, total)


def _backward(saved: Any, gradient: jax.Array) -> tuple[jax.Array, None]:
    targets, powers, total = saved
    return gradient[..., None] * (powers / total - targets), None


cross_entropy.defvjp(_forward, _backward)
