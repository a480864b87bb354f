"""Mixtures of experts."""

from __future__ import annotations

from typing import Any

import jax

from benchmarks.models.layers import Context


def mixture(c: Context, weights: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The experts' part of a layer."""
    raise NotImplementedError
