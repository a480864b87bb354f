"""Arrays without contents that libraries on top of JAX take for arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax

_ANSWERS = ("shape", "dtype", "sharding", "weak_type", "ndim", "size")


def as_array(value: jax.ShapeDtypeStruct) -> jax.Array:
    """An abstract value as an instance of `jax.Array`.

    Equinox traces what is an array and holds everything else static, a `ShapeDtypeStruct` too.
    """
    array = _kind()()
    array.value = value
    return array


@cache
def _kind() -> Any:
    """The class of such arrays, which JAX is told of."""
    from jax._src import core

    answers = {name: property(_answer(name)) for name in _ANSWERS}
    kind: Any = type("AbstractArray", (jax.Array,), answers)
    kind.__abstractmethods__ = frozenset()  # it has no contents to compute with
    core.pytype_aval_mappings[kind] = lambda array: core.shaped_abstractify(array.value)
    return kind


def _answer(name: str) -> Any:
    return lambda array: getattr(array.value, name)
