"""Where a value's dimensions go: logical axes to axes of the mesh.

The rules are MaxText's (`logical_axis_rules` of its `base.yml`, tag tpu-recipes-v0.1.4) without those of
pipelines and inference. A rule applies when the value has its logical axis, that has no place yet, and
none of the rule's mesh axes is taken by another dimension of the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from benchmarks.models.run import AXES, Run
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

BATCH = ("data", "fsdp", "fsdp_transpose", "expert")
TENSOR = ("tensor", "tensor_transpose", "tensor_sequence")
RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("batch", BATCH),
    ("batch_of_expert", BATCH[:3]),
    ("act_heads", ("tensor", "tensor_transpose", "sequence", "tensor_sequence")),
    ("act_length", ("sequence", "context")),
    ("act_length", ("context",)),
    ("act_norm_length", ("tensor_sequence", "context", "sequence")),
    ("act_embed", ("tensor", "tensor_transpose")),
    ("act_mlp", TENSOR),
    ("act_vocab", ("tensor", "tensor_transpose", "sequence", "tensor_sequence")),
    ("act_vocab", ("tensor", "tensor_transpose")),
    ("act_experts", ("expert",)),
    ("mlp", ("fsdp_transpose", "tensor", "tensor_sequence")),
    ("vocab", TENSOR),
    ("heads", TENSOR),
    ("embed", ("fsdp", "fsdp_transpose", "sequence", "tensor_transpose", "context", "expert")),
    ("embed", ("fsdp", "sequence", "tensor_transpose", "context", "expert")),
    ("embed", ("fsdp", "fsdp_transpose", "sequence", "context", "expert")),
    ("embed", ("fsdp", "sequence", "context", "expert")),
    ("embed_of_expert", ("fsdp", "fsdp_transpose", "sequence", "tensor_transpose", "context")),
    ("embed_of_expert", ("fsdp", "sequence", "tensor_transpose", "context")),
    ("embed_of_expert", ("fsdp", "fsdp_transpose", "sequence", "context")),
    ("embed_of_expert", ("fsdp", "sequence", "context")),
    ("rank", ("fsdp", "fsdp_transpose", "sequence", "context", "tensor_transpose", "expert")),
    ("rank", ("fsdp", "sequence", "context", "tensor_transpose", "expert")),
    ("rank", ("fsdp", "fsdp_transpose", "sequence", "context", "expert")),
    ("rank", ("fsdp", "sequence", "context", "expert")),
    ("norm", TENSOR),
    ("experts", ("expert",)),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Places values on a mesh by the names of their dimensions."""

    mesh: Mesh | AbstractMesh

    def size(self, *axes: str) -> int:
        """The product of the sizes of mesh axes."""
        return math.prod(self.mesh.shape[axis] for axis in axes)

    def spec(self, *names: str | None) -> PartitionSpec:
        """The mesh axes of dimensions with these logical names; those of size 1 are left out."""
        places: dict[str, tuple[str, ...]] = {}
        for name, axes in RULES:
            taken = {axis for found in places.values() for axis in found}
            if name in names and name not in places and not taken.intersection(axes):
                places[name] = axes
        return PartitionSpec(*(self._of_size(places.get(name or "", ())) for name in names))

    def _of_size(self, axes: tuple[str, ...]) -> tuple[str, ...] | str | None:
        kept = tuple(axis for axis in axes if self.mesh.shape[axis] > 1)
        return kept[0] if len(kept) == 1 else kept or None

    def sharding(self, *names: str | None) -> NamedSharding:
        """The same as a sharding."""
        return NamedSharding(self.mesh, self.spec(*names))

    def constrain(self, value: jax.Array, *names: str | None) -> jax.Array:
        """The value, placed by the names of its dimensions."""
        return jax.lax.with_sharding_constraint(value, self.sharding(*names))

    def per_shard(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        """A function of whole values that runs `function` on each device's shards of them."""
        return jax.shard_map(
            function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )


def make_mesh(run: Run, devices: Sequence[Any]) -> Mesh:
    """The mesh of a run, its axes laid over the torus as `jax.experimental.mesh_utils` does.

    Raises:
        ValueError: the axes do not multiply to the number of devices, or do not fit the torus.
    """
    inner = _sizes("mesh", run.mesh, len(devices) // run.slices, rest="fsdp")
    outer = _sizes("dcn_mesh", run.dcn_mesh, run.slices, rest="data")
    by_slice = [devices] if run.slices == 1 else _by_slice(devices)
    try:
        meshes = [_mesh_of_slice(run, inner, one) for one in by_slice]
    except NotImplementedError as error:
        raise ValueError(f"{error} With split_physical_axes = true that can be tried.") from error
    numbers = np.arange(run.slices).reshape(outer)
    blocks = np.vectorize(lambda number: meshes[number], otypes=[object])(numbers)
    return Mesh(np.block(blocks.tolist()), AXES)


def _by_slice(devices: Sequence[Any]) -> list[list[Any]]:
    numbers = sorted({device.slice_index for device in devices})
    return [[device for device in devices if device.slice_index == n] for n in numbers]


def _mesh_of_slice(run: Run, sizes: tuple[int, ...], devices: Sequence[Any]) -> np.ndarray:
    if run.rings:
        torus = mesh_utils.create_device_mesh((16, 16), devices)
        return _in_rings(torus, int(run.rings.partition("x")[2])).reshape(sizes)
    return mesh_utils.create_device_mesh(
        sizes, devices, allow_split_physical_axes=run.split_physical_axes
    )


def _in_rings(torus: np.ndarray, length: int) -> np.ndarray:
    """Devices of a 2-D torus by rings: two rows of neighbours, there and back."""
    rows, columns = torus.shape
    width = length // 2
    pairs = torus.reshape(rows // 2, 2, columns // width, width)
    return np.concatenate([pairs[:, 0], pairs[:, 1, :, ::-1]], axis=-1).reshape(-1, length)


def one_device_mesh(device: Any) -> Mesh:
    """A mesh for running on one device."""
    return Mesh(np.array([device], dtype=object).reshape((1,) * len(AXES)), AXES)


def _sizes(name: str, given: Mapping[str, int], total: int, rest: str) -> tuple[int, ...]:
    """The size of every axis. `rest` takes what is left where the table does not say."""
    sizes = {axis: given.get(axis, 1) for axis in AXES}
    if -1 not in sizes.values() and rest not in given:
        sizes[rest] = -1
    known = math.prod(size for size in sizes.values() if size != -1)
    sizes = {axis: total // known if size == -1 else size for axis, size in sizes.items()}
    if math.prod(sizes.values()) != total:
        raise ValueError(f"{name} {dict(given)} does not make {total} devices")
    return tuple(sizes.values())
