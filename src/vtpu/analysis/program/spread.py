"""How a program's arguments lie on its devices: which are cut, which are whole, how those could be cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import lcm, prod

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.memory import MemoryItem, SpaceUsage
from vtpu.program.memory import AllocationKind, BufferAssignment
from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape
from vtpu.program.shardings import Sharding

Axes = tuple[tuple[str, int], ...]
"""Axes of a mesh with their sizes."""

_STATE = (Role.PARAMETER, Role.OPTIMIZER, Role.CACHE)
_LANES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How an array could be cut: along which dimension, into how many parts, over which axes.

    `axes` is empty where the compiler did not keep their names.
    """

    dimension: int
    parts: int
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """An argument on the devices of a program. Each of its pieces lies on `copies` devices.

    `free_axes` are those of the mesh that do not cut it; None where that is not known. `output_bytes` is
    what a result of its shape takes beside it, 0 where it is donated or there is none.
    """

    item: MemoryItem
    shape: ArrayShape
    sharding: Sharding
    copies: int
    free_axes: Axes | None
    is_state: bool
    output_bytes: int

    @property
    def global_bytes(self) -> int:
        """Bytes of all its pieces, each once."""
        return self.item.bytes * self.sharding.pieces

    def saved_bytes(self, parts: int) -> int:
        """What each device has less, if what is here were cut into `parts`, with the result like it."""
        whole = self.item.bytes + self.output_bytes
        return whole - whole // parts

    def best_split(self) -> Split | None:
        """The cut into most parts that divides a dimension, the largest; None where nothing divides."""
        for axes, parts in self._ways():
            fitting = [d for d, size in enumerate(self.shape.dims) if size % parts == 0]
            if fitting:
                dimension = max(fitting, key=lambda d: self.shape.dims[d])
                return Split(dimension=dimension, parts=parts, axes=axes)
        return None

    def _ways(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Groups of free axes with the parts that they cut into, most parts first."""
        if self.free_axes is None:
            parts = [self.copies // by for by in (1, 2, 4) if self.copies % by == 0]
            yield from (((), count) for count in parts if count > 1)
            return
        groups = [
            g for n in range(len(self.free_axes), 0, -1) for g in combinations(self.free_axes, n)
        ]
        sized = [(tuple(name for name, _ in g), prod(size for _, size in g)) for g in groups]
        yield from sorted(sized, key=lambda way: -way[1])

    def spec(self, split: Split) -> str:
        """The partition spec with a further cut: `P(None, "data")`; only its text where axes have no names."""
        if not split.axes:
            return f"dimension {split.dimension} cut into {split.parts}"
        names = [list(axes) for axes in self.sharding.axes or [()] * len(self.shape.dims)]
        names[split.dimension] += split.axes
        return _spec(names)


def spec_text(sharding: Sharding) -> str:
    """A sharding as a partition spec: `P("data", None)`; empty where the compiler did not keep names."""
    return _spec([list(axes) for axes in sharding.axes]) if sharding.axes is not None else ""


def _spec(names: list[list[str]]) -> str:
    return f"P({', '.join(map(_entry, names))})"


def _entry(names: list[str]) -> str:
    if not names:
        return "None"
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"


def spreads_of(
    module: Module, assignment: BufferAssignment, hbm: SpaceUsage, num_devices: int
) -> tuple[Spread, ...]:
    """The arguments in HBM, largest first; none where the program runs on one device or does not tell."""
    devices = max(len(module.devices), num_devices)
    if devices < 2 or not module.parameter_shardings:
        return ()
    numbers = {a.index: a.parameter for a in assignment.allocations}
    mesh = mesh_of(module)
    outputs = Counter(_like(i) for i in hbm.items if i.occupant.kind is AllocationKind.OUTPUT)
    found: list[Spread] = []
    by_number = sorted(hbm.items, key=lambda i: numbers.get(i.occupant.allocation) or 0)
    for item in sorted(by_number, key=lambda i: -i.bytes):
        number = numbers.get(item.occupant.allocation)
        if item.occupant.kind is AllocationKind.ARGUMENT and number is not None and item.shape:
            sharding = module.parameter_shardings[number]
            if sharding is not None:
                found.append(_spread(item, item.shape, sharding, devices, mesh, outputs))
    return tuple(found)


def mesh_of(module: Module) -> Axes:
    """The mesh that the program's shardings name; empty where they name none, or several."""
    shardings = (*module.parameter_shardings, *module.result_shardings)
    meshes = {s.mesh for s in shardings if s and s.mesh}
    return meshes.pop() if len(meshes) == 1 else ()


def _like(item: MemoryItem) -> tuple[str, int]:
    return str(item.shape), item.bytes


def _spread(
    item: MemoryItem,
    shape: ArrayShape,
    sharding: Sharding,
    devices: int,
    mesh: Axes,
    outputs: Counter[tuple[str, int]],
) -> Spread:
    has_result = outputs[_like(item)] > 0
    outputs[_like(item)] -= has_result
    is_in_out = (has_result or item.is_donated) and item.role is Role.ARGUMENT
    copies = devices // sharding.pieces
    return Spread(
        item=item,
        shape=shape,
        sharding=sharding,
        copies=copies,
        free_axes=_free_axes(sharding, copies, mesh),
        is_state=item.role in _STATE or is_in_out,
        output_bytes=item.bytes if has_result and not item.is_donated else 0,
    )


def _free_axes(sharding: Sharding, copies: int, mesh: Axes) -> Axes | None:
    if sharding.axes is None or not mesh:
        return None
    free = tuple((n, size) for n, size in mesh if n not in sharding.used_axes and size > 1)
    return free if prod(size for _, size in free) == copies else None


# ---- what does not divide ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Undivided:
    """An argument that is whole where most of the state is cut, with the dimension that does not divide.

    `axis` is empty where the compiler did not keep names. `padded` is the size that would divide.
    """

    spread: Spread
    dimension: int
    axis: str
    parts: int
    padded: int
    others: int


_FEWEST_OTHERS = 3
_LEAST_PER_PART = 8  # a dimension with fewer for each device is not what one would cut


def find_undivided(spreads: Iterable[Spread]) -> tuple[Undivided, ...]:
    """The arguments whose largest dimension does not divide by an axis that cuts most of the state."""
    state = [s for s in spreads if s.is_state]
    return tuple(u for s in state if s.copies > 1 and (u := _undivided(s, state)))


def _undivided(spread: Spread, state: list[Spread]) -> Undivided | None:
    dimension = max(range(len(spread.shape.dims)), key=lambda d: spread.shape.dims[d], default=None)
    if dimension is None:
        return None
    size = spread.shape.dims[dimension]
    for axis, parts in _axes_of_others(spread, state):
        cut = [s for s in state if _is_cut_by(s, axis)]
        whole = sum(s.global_bytes for s in state if not _is_cut_by(s, axis) and s is not spread)
        are_many = len(cut) >= _FEWEST_OTHERS or any(_is_sibling(spread, dimension, s) for s in cut)
        is_rule = are_many and sum(s.global_bytes for s in cut) >= whole
        if is_rule and size % parts and size >= _LEAST_PER_PART * parts:
            return Undivided(
                spread=spread,
                dimension=dimension,
                axis=axis,
                parts=parts,
                padded=_next_multiple(size, parts),
                others=len(cut),
            )
    return None


def _axes_of_others(spread: Spread, state: list[Spread]) -> Axes:
    """The axes that could cut an argument; without names the number of pieces that most others have."""
    if spread.free_axes is not None and spread.sharding.axes is not None:
        return spread.free_axes
    pieces = Counter(s.sharding.pieces for s in state if s.sharding.pieces > 1)
    return (
        tuple(("", parts) for parts, _ in pieces.most_common(1))
        if spread.sharding.pieces == 1
        else ()
    )


def _is_cut_by(spread: Spread, axis: str) -> bool:
    return axis in spread.sharding.used_axes if axis else spread.sharding.pieces > 1


def _is_sibling(spread: Spread, dimension: int, other: Spread) -> bool:
    """Whether another array is one of the same kind, another table, which is cut along the dimension."""
    mine, theirs = spread.shape.dims, other.shape.dims
    rest = mine[:dimension] + mine[dimension + 1 :]
    is_alike = len(mine) == len(theirs) and rest == theirs[:dimension] + theirs[dimension + 1 :]
    return is_alike and other.sharding.parts[dimension] > 1


def _next_multiple(size: int, parts: int) -> int:
    """The next size that divides; one that fills lanes too where that costs little."""
    wide = lcm(parts, _LANES)
    padded = -(-size // wide) * wide
    return padded if padded <= 1.05 * size else -(-size // parts) * parts
