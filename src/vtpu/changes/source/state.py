"""What a program takes: parameters, optimizer state, batch; and how they are spread over the mesh."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles, tree_of
from vtpu.changes.situation import ArgumentLeaf, Situation
from vtpu.changes.source.meshes import mesh_called, visible_mesh
from vtpu.changes.source.step_calls import step_call
from vtpu.program.element_types import ElementType
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.shardings import Sharding

Axes = tuple[tuple[str, ...], ...]
_STEP = re.compile(r"\.[^.\[]+|\[[^\]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An array among the arguments of a program, by JAX's path of it: `params['w']`.

    `shape` is that of the whole array, `bytes` what a device holds of it. `parts` says into how many pieces each
    dimension is cut, `axes` by which axes of the mesh: None where that is not known.
    """

    path: str
    shape: tuple[int, ...]
    element_type: ElementType
    role: Role
    bytes: int
    parts: tuple[int, ...]
    axes: Axes | None
    is_donated: bool
    is_on_host: bool

    @property
    def tree(self) -> str:
        """The argument that it belongs to."""
        return tree_of(self.path)

    @property
    def elements(self) -> int:
        """Elements of the whole array."""
        return prod(self.shape)

    @property
    def used_axes(self) -> frozenset[str]:
        """The axes of the mesh that cut it."""
        return frozenset(name for names in self.axes or () for name in names)

    @property
    def kind(self) -> str:
        """Its type and shape."""
        return f"{self.element_type.xla_name}{self.shape}"

    def __str__(self) -> str:
        """Its name, type and dimensions: `x (f32[8,128])`."""
        return f"{self.path} ({self.element_type.xla_name}[{','.join(map(str, self.shape))}])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The arrays of one kind in an argument. `below` are the paths in it that have all of them and nothing
    else, `('.opt_state',)` of a state with everything; one empty path is the whole argument.
    """

    tree: str
    below: tuple[str, ...]
    arrays: tuple[Taken, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the argument."""
        return self.below == ("",)

    @property
    def below_text(self) -> str:
        """The argument of a helper function that names it; empty where it is the whole argument."""
        return "" if self.is_whole else f", below={self.below!r}"

    @property
    def name(self) -> str:
        """Its name for people: `params`, `state.opt_state`."""
        return ", ".join(self.tree + path for path in self.below)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The arguments of a program by what they are for; `mesh` has the axes with their sizes.

    `results` are types and shapes of the whole results, in order, as `kind` tells them.
    """

    parameters: tuple[Taken, ...]
    optimizer: tuple[Taken, ...]
    batch: tuple[Taken, ...]
    arrays: tuple[Taken, ...]
    results: tuple[str, ...]
    mesh: tuple[tuple[str, int], ...]

    def parts(self, arrays: Iterable[Taken]) -> tuple[Part, ...]:
        """Some of the arrays by the arguments that they belong to."""
        wanted = {a.path: a for a in arrays}
        trees = dict.fromkeys(a.tree for a in wanted.values())
        return tuple(_part(tree, self.arrays, wanted) for tree in trees)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch: arrays whose first dimension it is. `cut`: into how many parts the mesh cuts that."""

    size: int
    cut: int
    arrays: tuple[Taken, ...]

    @property
    def trees(self) -> tuple[str, ...]:
        """The arguments that it consists of."""
        return tuple(dict.fromkeys(a.tree for a in self.arrays))


def read_state(situation: Situation) -> State | None:
    """What the program takes; None where there is no module of it."""
    module = situation.program.module
    if module is None:
        return None
    arrays = _arrays(module, {leaf.path: leaf for leaf in situation.arguments})
    results = tuple(_results(module))
    parameters = [a for a in arrays if a.role is Role.PARAMETER]
    shapes = {a.shape for a in parameters}
    optimizer = [
        a for a in arrays if a.role is Role.OPTIMIZER or _is_moment(a, shapes, Counter(results))
    ]
    if not parameters:  # no name tells: what has rows and columns and is none of the others
        parameters = [a for a in arrays if a.role is Role.ARGUMENT and len(a.shape) > 1]
        parameters = [a for a in parameters if a not in optimizer]
    return State(
        parameters=tuple(parameters),
        optimizer=tuple(optimizer),
        batch=tuple(a for a in arrays if a.role is Role.BATCH),
        arrays=arrays,
        results=results,
        mesh=_mesh(situation, module),
    )


def find_batch(state: State) -> Batch | str:
    """The batch, or why it cannot be told."""
    arrays = [a for a in state.batch if a.shape]
    if not arrays:
        listed = ", ".join(map(str, state.arrays[:6])) or "there is no array"
        return f"no argument is known to be the batch ({listed}); `x`, `batch`, `tokens` are names of one"
    sizes = {a.shape[0] for a in arrays}
    if len(sizes) > 1:
        return f"not every first dimension may be the batch: {', '.join(map(str, arrays[:6]))}"
    if odd := [a for a in arrays if a.parts[0] == 1 and prod(a.parts) > 1]:
        return f"{odd[0]} is spread over the mesh along another dimension than the first"
    return Batch(size=sizes.pop(), cut=max(a.parts[0] for a in arrays), arrays=tuple(arrays))


def _arrays(module: Module, given: dict[str, ArgumentLeaf]) -> tuple[Taken, ...]:
    parameters = module.parameters()
    donated = {alias.parameter for alias in module.aliases}
    names = [p.op_name or p.name for p in parameters]
    asked = [Argument(n, p.shape, i in donated) for i, (n, p) in enumerate(zip(names, parameters, strict=True))]  # fmt: skip
    known = module.parameter_shardings
    cut = known if len(known) == len(parameters) else (None,) * len(parameters)
    found = [
        _taken(name, p.shape, role, sharding, number in donated, bool(known))
        for number, (name, p, role, sharding) in enumerate(
            zip(names, parameters, judge_roles(asked), cut, strict=True)
        )
        if isinstance(p.shape, ArrayShape)
    ]
    return tuple(_as_given(a, given.get(a.path)) for a in found)


def _taken(
    name: str,
    shape: ArrayShape,
    role: Role,
    sharding: Sharding | None,
    is_donated: bool,
    is_spread: bool,
) -> Taken:
    rank = len(shape.dims)
    if sharding is None:
        sharding = Sharding(parts=(1,) * rank, axes=None if is_spread else ((),) * rank)
    parts = sharding.parts
    axes = sharding.axes if sharding.pieces > 1 or sharding.axes else ((),) * rank
    return Taken(
        path=name,
        shape=tuple(n * p for n, p in zip(shape.dims, parts, strict=True)),
        element_type=shape.element_type,
        role=role,
        bytes=shape.padded_bytes,
        parts=parts,
        axes=axes,
        is_donated=is_donated,
        is_on_host=shape.layout.memory_space == MemorySpace.HOST,
    )


def _as_given(array: Taken, leaf: ArgumentLeaf | None) -> Taken:
    """With the partition that the argument was given with, which the compiler may have simplified."""
    if leaf is None or leaf.spec is None:
        return array
    named = [(n,) if isinstance(n, str) else tuple(n or ()) for n in leaf.spec]
    axes = (*named, *[()] * (len(leaf.shape) - len(named)))
    sizes = dict(leaf.mesh)
    parts = tuple(prod(sizes[n] for n in names) for names in axes)
    return replace(array, shape=leaf.shape, axes=axes, parts=parts)


def _is_moment(array: Taken, parameters: set[tuple[int, ...]], results: Counter[str]) -> bool:
    """Whether an argument without a telling name is a parameter's companion that the step updates."""
    if array.role is not Role.ARGUMENT or array.shape not in parameters:
        return False
    return array.is_donated or results[array.kind] > 1


def _results(module: Module) -> Iterator[str]:
    """Type and shape of each result; of one that is no array nothing is known."""
    result = module.result()
    shapes = [s for _, s in leaves(result.shape)] if result else []
    cut = module.result_shardings
    known = cut if len(cut) == len(shapes) else (None,) * len(shapes)
    for shape, sharding in zip(shapes, known, strict=True):
        if not isinstance(shape, ArrayShape):
            yield ""
            continue
        parts = sharding.parts if sharding else (1,) * len(shape.dims)
        whole = tuple(n * p for n, p in zip(shape.dims, parts, strict=True))
        yield f"{shape.element_type.xla_name}{whole}"


def _mesh(situation: Situation, module: Module) -> tuple[tuple[str, int], ...]:
    """The mesh that arguments are given on; of a script the largest that its program knows, or its file makes.

    A program of which everything is whole knows none.
    """
    meshes = [leaf.mesh for leaf in situation.arguments]
    meshes += [s.mesh for s in (*module.parameter_shardings, *module.result_shardings) if s]
    found = max(meshes, key=lambda mesh: prod(size for _, size in mesh), default=())
    return found or (_mesh_of_source(situation) if situation.target.is_script else ())


def _mesh_of_source(situation: Situation) -> tuple[tuple[str, int], ...]:
    """The mesh that is to be seen where the step is called."""
    call = step_call(situation)
    text = visible_mesh(call.file, call.node) if call else None
    made = mesh_called(call.file, text) if call and text else None
    record = situation.program.record
    partitions = record.num_partitions if record else 1
    return made.shape(partitions if partitions > 1 else situation.slice.num_devices) if made else ()


def _part(tree: str, arrays: Sequence[Taken], wanted: dict[str, Taken]) -> Part:
    paths = [a.path for a in arrays if a.tree == tree]
    steps = [(p, tuple(_STEP.findall(p[len(tree) :]))) for p in paths]
    below = _covering(steps, set(wanted), 0)
    own = tuple(wanted[p] for p in paths if p in wanted)
    return Part(tree=tree, below=tuple(below), arrays=own)


def _covering(
    steps: Sequence[tuple[str, tuple[str, ...]]], wanted: set[str], depth: int
) -> list[str]:
    """The shortest paths below which everything is wanted."""
    if all(path in wanted for path, _ in steps):
        return ["".join(steps[0][1][:depth])]
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for path, names in steps:
        if len(names) > depth:
            groups.setdefault(names[depth], []).append((path, names))
    inner = [group for group in groups.values() if any(path in wanted for path, _ in group)]
    return [found for group in inner for found in _covering(group, wanted, depth + 1)]
