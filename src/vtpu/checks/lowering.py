"""Whatever describes a program, lowered for the devices of a slice."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from vtpu.checks.abstract_arrays import as_array
from vtpu.errors import UsageError

_OTHER_DEVICES = (
    "incompatible devices for jitted computation",
    "Sharding passed to jit does not match",
)


def lower(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], devices: Sequence[Any] | None
) -> Any:
    """A function, lowered. `devices`: those of the slice; None when they are JAX's own.

    What the function raises while it is traced is the user's own error.

    Raises:
        UsageError: its arguments are spread over more devices than the slice has.
    """
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    if devices is None:
        return jitted.lower(*args, **kwargs)
    args, kwargs = place((args, dict(kwargs)), devices)
    if type(jitted).__module__.partition(".")[0] == "equinox":
        args, kwargs = jax.tree.map(_for_equinox, (args, kwargs))
    with _default_device(args, kwargs, devices[0]), _devices_explained():
        return jitted.lower(*args, **kwargs)


def raised_while_traced(error: BaseException) -> bool:
    """Whether an exception is the user's own, or JAX's about the user's function or arguments."""
    frames = error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code is lower.__code__:
            return True
        frames = frames.tb_next
    return False


def _default_device(args: Any, kwargs: Any, device: Any) -> AbstractContextManager[Any]:
    """Where no argument says for which device a program is, JAX's default does."""
    leaves = jax.tree.leaves((args, kwargs))
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        return nullcontext()
    return jax.default_device(device)


@contextmanager
def _devices_explained() -> Generator[None]:
    """JAX's error about devices of two backends, with what to do."""
    try:
        yield
    except ValueError as error:
        if not any(text in str(error) for text in _OTHER_DEVICES):
            raise
        raise UsageError(
            "the function itself names devices that are none of the slice's: a mesh that it uses, or "
            "in_shardings and out_shardings of jit. Attach the slice before they are made "
            "(`vtpu.attach`), or use `vtpu check`, which does."
        ) from error


def _for_equinox(leaf: Any) -> Any:
    return as_array(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf


def place(tree: Any, devices: Sequence[Any]) -> Any:
    """Arrays as abstract values on a slice; meshes of other devices as meshes of the slice's.

    A mesh keeps its shape and takes the slice's devices in their order, which means nothing for
    memory. Arrays on one device become arguments of a program for one device.

    Raises:
        UsageError: a mesh has more devices than the slice.
    """
    leaves, structure = jax.tree.flatten(tree)
    placed = [_abstract(leaf, devices) for leaf in leaves]
    if not any(_is_spread(leaf) for leaf in placed):
        placed = [_on_first(leaf, devices) for leaf in placed]
    return jax.tree.unflatten(structure, placed)


def _abstract(leaf: Any, devices: Sequence[Any]) -> Any:
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        return leaf  # a Python number, or what is static
    sharding = getattr(leaf, "sharding", None)
    return jax.ShapeDtypeStruct(
        leaf.shape,
        leaf.dtype,
        sharding=_move(sharding, devices) if isinstance(sharding, NamedSharding) else None,
        weak_type=getattr(leaf, "weak_type", False),
    )


def _move(sharding: NamedSharding, devices: Sequence[Any]) -> NamedSharding | None:
    mesh = sharding.mesh
    if mesh.size == 1:
        return None
    if mesh.size > len(devices):
        raise UsageError(
            f"an argument is spread over {mesh.size} devices (mesh {dict(mesh.shape)}), and the slice "
            f"has {len(devices)}. Name a larger slice, or make a smaller mesh."
        )
    import numpy as np

    chosen = np.array(devices[: mesh.size], dtype=object).reshape(tuple(mesh.shape.values()))
    moved = Mesh(chosen, mesh.axis_names, axis_types=getattr(mesh, "axis_types", None))
    return NamedSharding(moved, sharding.spec, memory_kind=_memory_kind(sharding))


def _memory_kind(sharding: NamedSharding) -> str | None:
    """Host memory, where it was chosen; a CPU's own default is the device's memory of a TPU."""
    kind = sharding.memory_kind
    if kind is None or not isinstance(sharding.mesh, Mesh):
        return kind
    default = sharding.mesh.devices.flat[0].default_memory().kind
    return None if kind == default else kind


def _is_spread(leaf: Any) -> bool:
    sharding = getattr(leaf, "sharding", None)
    return isinstance(sharding, NamedSharding) and sharding.mesh.size > 1


def _on_first(leaf: Any, devices: Sequence[Any]) -> Any:
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return jax.ShapeDtypeStruct(
        leaf.shape,
        leaf.dtype,
        sharding=SingleDeviceSharding(devices[0]),
        weak_type=leaf.weak_type,
    )
