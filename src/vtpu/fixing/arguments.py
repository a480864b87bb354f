"""The arguments of a function as a change has them, and what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vtpu.analysis.program.argument_roles import Argument, judge_roles
from vtpu.changes.change import ArgumentChange
from vtpu.changes.situation import ArgumentLeaf
from vtpu.checks.argument_leaves import Leaf, argument_leaves

Call = tuple[tuple[Any, ...], dict[str, Any]]
_AXIS = "data"


def describe_arguments(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[ArgumentLeaf]:
    """The arrays among the arguments, with their shardings."""
    leaves = argument_leaves(function, args, kwargs)
    roles = judge_roles([Argument(leaf.name, None, False) for leaf in leaves])
    return [
        _describe(leaf, str(role))
        for leaf, role in zip(leaves, roles, strict=True)
        if hasattr(leaf.value, "shape") and hasattr(leaf.value, "dtype")
    ]


def _describe(leaf: Leaf, role: str) -> ArgumentLeaf:
    sharding = getattr(leaf.value, "sharding", None)
    is_named = isinstance(sharding, NamedSharding)
    return ArgumentLeaf(
        path=leaf.name,
        argument=leaf.argument,
        shape=leaf.shape,
        dtype=str(leaf.value.dtype),
        role=role,
        spec=tuple(sharding.spec) if is_named else None,
        mesh=tuple(sharding.mesh.shape.items()) if is_named else (),
        memory_kind=getattr(sharding, "memory_kind", None),
    )


def change_arguments(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    changes: Sequence[ArgumentChange],
    devices: Sequence[Any],
) -> Call:
    """The arguments with changes made, one after the other."""
    if not changes:
        return tuple(args), dict(kwargs)
    leaves = argument_leaves(function, args, kwargs)
    mesh = _mesh_of(leaves, devices)
    values = [_changed(leaf, changes, mesh) for leaf in leaves]
    structure = jax.tree.structure((tuple(args), dict(kwargs)))
    return jax.tree.unflatten(structure, values)


def _mesh_of(leaves: Sequence[Leaf], devices: Sequence[Any]) -> Mesh:
    """The mesh that arguments have; where none has one, all devices along one axis."""
    for leaf in leaves:
        sharding = getattr(leaf.value, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return sharding.mesh
    return Mesh(np.array(devices), (_AXIS,))


def _changed(leaf: Leaf, changes: Sequence[ArgumentChange], mesh: Mesh) -> Any:
    value = leaf.value
    for change in changes:
        if hasattr(value, "shape") and _is_below(leaf.name, change.path):
            value = _apply(value, change, mesh)
    return value


def _is_below(name: str, path: str) -> bool:
    return name == path or name.startswith((f"{path}[", f"{path}."))


def _apply(value: Any, change: ArgumentChange, mesh: Mesh) -> jax.ShapeDtypeStruct:
    shape = list(value.shape)
    if change.axis is not None and change.size is not None:
        shape[change.axis] = change.size
    sharding = getattr(value, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        sharding = None
    if change.spec is not None or change.memory_kind is not None:
        spec = PartitionSpec(*change.spec) if change.spec is not None else PartitionSpec()
        if change.spec is None and sharding is not None:
            spec = sharding.spec
        kind = change.memory_kind or getattr(sharding, "memory_kind", None)
        sharding = NamedSharding(sharding.mesh if sharding else mesh, spec, memory_kind=kind)
    return jax.ShapeDtypeStruct(
        tuple(shape), np.dtype(change.dtype) if change.dtype else value.dtype, sharding=sharding
    )
