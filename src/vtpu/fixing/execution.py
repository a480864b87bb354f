"""Computes a function on this machine's CPU, with made-up inputs, and keeps its results.

    python -m vtpu.fixing.execution SPEC.json RESULT.npz

The inputs follow from the arguments' names and shapes alone, so that two variants of a function get the
same ones. A function that is too much to compute gets a smaller batch.
"""

from __future__ import annotations

import contextlib
import sys
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from vtpu.analysis.program.argument_roles import Role
from vtpu.changes.change import ArgumentChange
from vtpu.fixing.overlay import import_as_edited

MOST_FLOPS = 300e9
MOST_BYTES = 2 << 30  # of arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSpec:
    """What to compute: the function, its files' texts, its arguments; `flops` with the arguments as they
    are, None where that is not known.
    """

    target: str
    arguments: str | None
    texts: dict[str, str]
    changes: tuple[ArgumentChange, ...]
    flops: float | None


class TooMuch(Exception):
    """It cannot be computed here, and why."""


def compute(spec: ExecutionSpec) -> tuple[list[np.ndarray], list[bool], str]:
    """The results as arrays, in JAX's order; which had fewer than 32 bits; at what size they were computed.

    Raises:
        TooMuch: even with the smallest batch it is too much, or what the batch is cannot be told.
    """
    import_as_edited(spec.texts)
    import jax

    from vtpu.checks.targets import load_target
    from vtpu.fixing.arguments import change_arguments

    target = load_target(spec.target, spec.arguments)
    args, kwargs, said = _small_enough(target.function, target.args, target.kwargs, spec.flops)
    args, kwargs = change_arguments(target.function, args, kwargs, spec.changes, jax.devices())
    args, kwargs = _with_values(target.function, args, kwargs)
    results = target.function(*args, **kwargs)
    leaves = [leaf for leaf in jax.tree.leaves(results) if hasattr(leaf, "dtype")]
    return [_plain(leaf) for leaf in leaves], [_is_small_float(leaf.dtype) for leaf in leaves], said


def _small_enough(
    function: Any, args: Any, kwargs: Any, flops: float | None
) -> tuple[Any, Any, str]:
    """The arguments with a batch that can be computed."""
    from vtpu.checks.batch_arguments import read_batch
    from vtpu.errors import UsageError

    size = _bytes_of(args) + _bytes_of(kwargs)
    too_large = max((flops or 0.0) / MOST_FLOPS, size / MOST_BYTES)
    if too_large <= 1:
        return args, kwargs, "computed on the CPU with made-up inputs of the real shapes"
    guess = _leading_dimension(function, args, kwargs)
    if guess is None:
        raise TooMuch("it is too much for this machine, and what its batch is could not be told")
    try:
        batch = read_batch(function, args, kwargs, guess)
    except UsageError as error:
        raise TooMuch(
            f"it is too much for this machine with its batch of {guess}: {error}"
        ) from error
    smaller = max(batch.step, int(guess / too_large) // batch.step * batch.step)
    args, kwargs = batch.at(smaller)
    left = (flops or 0.0) * smaller / guess
    if left > 2 * MOST_FLOPS or _bytes_of(args) + _bytes_of(kwargs) > 2 * MOST_BYTES:
        raise TooMuch("it is too much for this machine even with the smallest batch")
    return args, kwargs, f"computed on the CPU with a batch of {smaller} instead of {guess}"


def _leading_dimension(function: Any, args: Any, kwargs: Any) -> int | None:
    """The first dimension that what is no state has in common."""
    from vtpu.fixing.arguments import describe_arguments

    leaves = describe_arguments(function, args, kwargs)
    state = (Role.PARAMETER, Role.OPTIMIZER, Role.KEY)
    sizes = {leaf.shape[0] for leaf in leaves if leaf.shape and leaf.role not in state}
    return min(sizes) if sizes and all(s % min(sizes) == 0 for s in sizes) else None


def _bytes_of(tree: Any) -> int:
    import jax

    leaves = [x for x in jax.tree.leaves(tree) if hasattr(x, "shape") and hasattr(x, "dtype")]
    return sum(prod(x.shape) * np.dtype(_stored(x.dtype)).itemsize for x in leaves)


def _stored(dtype: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return np.uint32 if jnp.issubdtype(dtype, jax.dtypes.prng_key) else dtype


def _with_values(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments with contents."""
    import jax

    from vtpu.checks.argument_leaves import argument_leaves
    from vtpu.fixing.arguments import describe_arguments

    roles = {leaf.path: leaf.role for leaf in describe_arguments(function, args, kwargs)}
    leaves = argument_leaves(function, args, kwargs)
    values = [_value(leaf.name, leaf.value, roles.get(leaf.name, "")) for leaf in leaves]
    return jax.tree.unflatten(jax.tree.structure((tuple(args), dict(kwargs))), values)


def _value(name: str, given: Any, role: str) -> Any:
    import jax
    import jax.numpy as jnp

    if not hasattr(given, "shape") or not hasattr(given, "dtype"):
        return given
    random = np.random.default_rng(zlib.crc32(name.encode()))
    dtype = given.dtype
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.key(0)
    if np.issubdtype(dtype, np.bool_):
        value = random.random(given.shape) < 0.5
    elif np.issubdtype(dtype, np.integer):
        value = random.integers(0, 4, given.shape)
    elif role == Role.OPTIMIZER:  # second moments are positive
        value = random.random(given.shape, np.float32) * 1e-3
    else:
        value = random.standard_normal(given.shape, np.float32) * 0.1
    return jax.device_put(np.asarray(value, dtype), getattr(given, "sharding", None))


def _plain(leaf: Any) -> np.ndarray:
    """An array as numpy keeps it: keys as their data, small floats as larger ones."""
    import jax
    import jax.numpy as jnp

    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return array.astype(np.float32) if _is_small_float(array.dtype) else array


def _is_small_float(dtype: Any) -> bool:
    import jax.numpy as jnp

    return jnp.issubdtype(dtype, jnp.floating) and np.dtype(dtype).itemsize < 4


def main(spec_file: str, result_file: str) -> None:
    """Computes what a file says. Results, how large, or why not, go to another one."""
    spec = TypeAdapter(ExecutionSpec).validate_json(Path(spec_file).read_bytes())
    with contextlib.redirect_stdout(sys.stderr):
        try:
            arrays, small, said = compute(spec)
        except TooMuch as reason:
            np.savez(result_file, why_not=np.array(str(reason)))
            return
    results = {f"r{i}": array for i, array in enumerate(arrays)}
    everything: dict[str, Any] = {"said": np.array(said), "small": np.array(small, bool), **results}
    np.savez(result_file, **everything)


if __name__ == "__main__":
    main(*sys.argv[1:3])
