"""The arrays among a function's arguments, with the names that people know them by."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the arguments: the argument it belongs to (its number, or its name), its own name."""

    argument: int | str
    name: str
    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions; none of what is no array."""
        return tuple(getattr(self.value, "shape", ()))

    def __str__(self) -> str:
        """Its name, type and dimensions."""
        dims = ",".join(map(str, self.shape))
        return f"{self.name} ({getattr(self.value, 'dtype', type(self.value).__name__)}[{dims}])"


def argument_names(function: Any) -> list[str]:
    """The names of a function's positional arguments, as far as it tells."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it has no signature
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in positional]


def argument_leaves(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """The leaves of a call's arguments, in JAX's order: `params['w']` of argument `params`."""
    names = dict(enumerate(argument_names(function)))
    found: list[Leaf] = []
    flat, _ = jax.tree.flatten_with_path((tuple(args), dict(kwargs)))
    for (kind, argument, *rest), value in flat:
        key = argument.idx if kind.idx == 0 else argument.key
        name = names.get(key, f"args[{key}]") if isinstance(key, int) else key
        found.append(Leaf(key, name + jax.tree_util.keystr(tuple(rest)), value))
    return found
