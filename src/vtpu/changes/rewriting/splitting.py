"""Arrays split over an axis of the mesh: which dimension, what a device saves, the code that does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import ArgumentChange
from vtpu.changes.edits import Edit, Helper, Import
from vtpu.changes.source.state import Taken

#: Smaller arrays stay whole: what they would save is less than a collective for them costs.
LEAST_ELEMENTS = 1 << 14

#: Ways to split the state exclude one another.
GROUP = "shard-state"

HELPER = "split_shardings"
_SOURCE = f'''
def split_shardings(tree, mesh, axis, below=("",), exact=False):
    """Shardings that split each large array of a tree over an axis of the mesh, along its largest dimension
    that divides; with `exact` along one that has just the axis's size, as experts do, if there is one. Of a
    tree with `below` only what lies under these paths; the rest stays as it is.
    """
    size = mesh.shape[axis]

    def split(path, array):
        there = getattr(array, "sharding", None)
        is_spread = isinstance(there, jax.sharding.NamedSharding) and there.mesh == mesh
        spec = list(there.spec) if is_spread else []
        spec += [None] * (array.ndim - len(spec))
        free = [d for d in range(array.ndim) if spec[d] is None and array.shape[d] % size == 0]
        is_asked = jax.tree_util.keystr(path).startswith(below)
        if is_asked and free and array.size >= {LEAST_ELEMENTS} and axis not in jax.tree.leaves(spec):
            spec[max(free, key=lambda d: (exact and array.shape[d] == size, array.shape[d]))] = axis
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    return jax.tree_util.tree_map_with_path(split, tree)
'''

AXIS = "data"
MESH_HELPER = "over_devices"
#: The mesh of a program that had none, as code.
NEW_MESH = f"{MESH_HELPER}().mesh"
_MESH_SOURCE = f'''
def over_devices(*spec):
    """A sharding over a mesh of all devices along one axis, "{AXIS}"."""
    mesh = jax.sharding.Mesh(jax.devices(), ("{AXIS}",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A way to split arrays: over which axis of the mesh, of which size. `exact`: rather along a dimension of
    just that size than along the largest.
    """

    axis: str
    size: int
    exact: bool = False

    def __str__(self) -> str:
        """For people: `8 ways over 'data'`."""
        along = f", along the dimension of {self.size} where there is one" if self.exact else ""
        return f"{self.size} ways over {self.axis!r}{along}"


def split_dimension(array: Taken, cut: Cut) -> int | None:
    """The dimension that the helper splits; None where it leaves an array as it is."""
    axis, size = cut.axis, cut.size
    if array.elements < LEAST_ELEMENTS or axis in array.used_axes or array.axes is None:
        return None
    free = [
        d for d, n in enumerate(array.shape) if not array.axes[d] and n % size == 0 and n >= size
    ]
    rank = {d: (cut.exact and array.shape[d] == size, array.shape[d]) for d in free}
    return max(free, key=lambda d: rank[d], default=None)


def split(array: Taken, cut: Cut) -> ArgumentChange | None:
    """The argument split over an axis; None where it stays as it is."""
    dimension = split_dimension(array, cut)
    if dimension is None or array.axes is None:
        return None
    axes = list(array.axes)
    axes[dimension] = (cut.axis,)
    return ArgumentChange(path=array.path, spec=spec_of(axes))


def spec_of(axes: Sequence[tuple[str, ...]]) -> tuple[str | tuple[str, ...] | None, ...]:
    """A partition as JAX writes it: `('data', None)`."""
    return tuple((names[0] if len(names) == 1 else names) if names else None for names in axes)


def spec_text(spec: Iterable[object]) -> str:
    """A partition as code: `'data', None` goes into the brackets of `PartitionSpec`."""
    return ", ".join(map(repr, spec))


def saved_bytes(arrays: Iterable[Taken], cut: Cut) -> int:
    """Bytes that a device no longer holds; twice where the old and the new array are there together."""
    found = 0
    for array in arrays:
        if split_dimension(array, cut) is not None:
            found += (array.bytes - array.bytes // cut.size) * (1 if array.is_donated else 2)
    return found


def helpers(file: SourceFile, *names: str) -> tuple[Edit, ...]:
    """The edits that give a file the helper functions, with what they need."""
    sources = {HELPER: _SOURCE, MESH_HELPER: _MESH_SOURCE}
    wanted = [Helper(file=file.name, name=name, source=sources[name]) for name in names]
    return (Import(file=file.name, statement="import jax"), *wanted)
