"""Which dimensions of which arguments are the batch, and the arguments at another size of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

import jax
from jax.sharding import NamedSharding

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles
from vtpu.checks.argument_leaves import Leaf, argument_leaves, argument_names
from vtpu.errors import UsageError

_START = 8
_NO_BATCH = {Role.PARAMETER, Role.OPTIMIZER, Role.KEY}
_HOW = (
    "Say where the batch is: `batch={'x': 0, 'labels': 0}` (an argument's name or number, its dimension), "
    "or give the arguments as a function of the size: `args=lambda size: (...)`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArguments:
    """Arguments by the size of the batch.

    `start`: the size that they were given with; `step`: what a size must be a multiple of, so that
    shards are equal; `scales`: what grows, for people; `at`: the arguments at a size.
    """

    start: int
    step: int
    scales: tuple[str, ...]
    at: Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]]


def read_batch(
    function: Any, args: Any, kwargs: Mapping[str, Any], batch: Any = None
) -> BatchArguments:
    """The arguments by the size of the batch.

    Args:
        function: whose arguments they are.
        args: positional arguments, or a function that returns them for a size.
        kwargs: keyword arguments.
        batch: the present size; or dimensions by argument: a mapping from name or number, or a
            sequence in their order, of a dimension, None, or a tree of these. For `args` that are a
            function: the size to begin with.

    Raises:
        UsageError: it is not clear what the batch is.
    """
    if callable(args):
        return _from_function(function, args, kwargs, batch)
    if not isinstance(args, tuple | list):
        raise UsageError(
            f"args are a tuple of the function's arguments, not {type(args).__name__}."
        )
    leaves = argument_leaves(function, args, kwargs)
    if isinstance(batch, int) and not isinstance(batch, bool):
        axes = _find_axes(leaves, batch)
    elif isinstance(batch, Mapping | Sequence) and not isinstance(batch, str | bytes):
        axes = _given_axes(function, args, kwargs, batch)
    else:
        raise UsageError(f"fit_batch does not know what to scale. {_HOW}")
    return _scaling(leaves, axes, args, kwargs)


def _scaling(
    leaves: list[Leaf], axes: list[int | None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BatchArguments:
    sizes = [_size(leaf, a) for leaf, a in zip(leaves, axes, strict=True) if a is not None]
    if not sizes:
        raise UsageError(f"`batch` names no dimension of an array. {_HOW}")
    start = min(sizes)
    if start < 1 or any(size % start for size in sizes):
        raise UsageError(
            f"The dimensions that `batch` names have the sizes {', '.join(map(str, sizes))}, which are "
            f"no multiples of the smallest. {_HOW}"
        )
    ratios = [None if a is None else leaf.shape[a] // start for leaf, a in zip(leaves, axes, strict=True)]  # fmt: skip
    structure = jax.tree.structure((tuple(args), dict(kwargs)))

    def at(size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        scaled = [
            leaf.value if axis is None or ratio is None else _resize(leaf.value, axis, ratio * size)
            for leaf, axis, ratio in zip(leaves, axes, ratios, strict=True)
        ]
        return jax.tree.unflatten(structure, scaled)

    scales = [f"{leaf}, dimension {a}" for leaf, a in zip(leaves, axes, strict=True) if a is not None]  # fmt: skip
    steps = [
        _step(leaf.value, axis, ratio)
        for leaf, axis, ratio in zip(leaves, axes, ratios, strict=True)
        if axis is not None and ratio is not None
    ]
    return BatchArguments(start=start, step=lcm(*steps), scales=tuple(scales), at=at)


def _size(leaf: Leaf, axis: int) -> int:
    if axis >= len(leaf.shape):
        raise UsageError(f"{leaf} has no dimension {axis}. {_HOW}")
    return leaf.shape[axis]


def _resize(value: Any, axis: int, size: int) -> jax.ShapeDtypeStruct:
    shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
    sharding = getattr(value, "sharding", None)
    return jax.ShapeDtypeStruct(
        shape,
        value.dtype,
        sharding=sharding if isinstance(sharding, NamedSharding) else None,
        weak_type=getattr(value, "weak_type", False),
    )


def _step(value: Any, axis: int, ratio: int) -> int:
    """What the batch must be a multiple of, so that all devices get as much of an array."""
    sharding = getattr(value, "sharding", None)
    if not isinstance(sharding, NamedSharding) or axis >= len(sharding.spec):
        return 1
    names: Any = sharding.spec[axis]
    parts = 1
    for name in (names,) if isinstance(names, str) else names if isinstance(names, tuple) else ():
        parts *= sharding.mesh.shape[name]
    return parts // gcd(parts, ratio)


# ---- the arguments and their names -------------------------------------------------------------


def _find_axes(leaves: list[Leaf], size: int) -> list[int | None]:
    """The dimension of each leaf that has the size of the batch, where that is beyond doubt."""
    roles = judge_roles([Argument(leaf.name, None, False) for leaf in leaves])
    found = [
        [] if role in _NO_BATCH else [i for i, d in enumerate(leaf.shape) if d == size]
        for leaf, role in zip(leaves, roles, strict=True)
    ]
    if not any(found):
        raise UsageError(f"No argument has a dimension of {size}: {_listed(leaves)}. {_HOW}")
    named = [leaf for leaf, axes in zip(leaves, found, strict=True) if axes]
    if len({axis for axes in found for axis in axes}) > 1:
        raise UsageError(
            f"Not every dimension of {size} may be the batch: {_listed(named)}. {_HOW}"
        )
    return [axes[0] if axes else None for axes in found]


def _listed(leaves: Iterable[Leaf], most: int = 8) -> str:
    names = [str(leaf) for leaf in leaves]
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") or "there is no array"


def _given_axes(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], batch: Any
) -> list[int | None]:
    """The dimension of each leaf from what the user wrote."""
    given = dict(batch) if isinstance(batch, Mapping) else dict(enumerate(batch))
    numbers = {name: i for i, name in enumerate(argument_names(function)) if i < len(args)}
    axes = {numbers.get(key, key) if isinstance(key, str) else key: v for key, v in given.items()}
    known = [*range(len(args)), *kwargs]
    if unknown := [key for key in axes if key not in known]:
        raise UsageError(
            f"`batch` names {', '.join(map(repr, unknown))}, and the arguments are "
            f"{', '.join([*numbers, *kwargs]) or f'{len(args)} positional ones'}. {_HOW}"
        )
    arguments = {**dict(enumerate(args)), **kwargs}
    return [axis for key in _in_order(args, kwargs) for axis in _spread(axes.get(key), arguments[key], key)]  # fmt: skip


def _in_order(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[int | str]:
    """Arguments in the order in which their leaves come: JAX sorts keywords."""
    return [*range(len(args)), *sorted(kwargs)]


def _spread(axes: Any, argument: Any, key: int | str) -> list[int | None]:
    """A tree of dimensions over the leaves of the argument, of which it may be a part from the top."""

    def over(axis: Any, part: Any) -> Any:
        if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
            raise UsageError(f"`batch` has {axis!r} for {key!r}; a dimension is a number. {_HOW}")
        return jax.tree.map(lambda leaf: _Axis(_positive(axis, leaf)), part)

    try:
        spread = jax.tree.map(over, axes, argument, is_leaf=lambda a: a is None)
    except ValueError as error:
        raise UsageError(f"`batch` has another structure than the argument {key!r}: {error}") from error  # fmt: skip
    return [a.number for a in jax.tree.leaves(spread)]


def _positive(axis: int | None, leaf: Any) -> int | None:
    return axis + len(leaf.shape) if axis is not None and axis < 0 and hasattr(leaf, "shape") else axis  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension or none, as a leaf of a tree."""

    number: int | None


# ---- arguments as a function of the size -------------------------------------------------------


def _from_function(
    function: Any, args: Callable[[int], Any], kwargs: Mapping[str, Any], batch: Any
) -> BatchArguments:
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
        raise UsageError("with args as a function of the size, `batch` is the size to begin with.")

    def at(size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = args(size)
        return (tuple(made) if isinstance(made, tuple | list) else (made,)), dict(kwargs)

    start = _START if batch is None else batch
    grown = list(
        _differences(
            argument_leaves(function, *at(start)), argument_leaves(function, *at(2 * start))
        )
    )
    if not grown:
        raise UsageError("args(size) returns arrays of the same shapes for every size.")
    step = lcm(
        *(_step(leaf.value, axis, max(1, leaf.shape[axis] // start)) for leaf, axis in grown)
    )
    if batch is None:
        start = -(-start // step) * step
    return BatchArguments(
        start=start,
        step=step,
        scales=tuple(f"{leaf}, dimension {axis}" for leaf, axis in grown),
        at=at,
    )


def _differences(some: list[Leaf], others: list[Leaf]) -> Iterable[tuple[Leaf, int]]:
    for a, b in zip(some, others, strict=False):
        for axis, (size, other) in enumerate(zip(a.shape, b.shape, strict=False)):
            if size != other:
                yield a, axis
