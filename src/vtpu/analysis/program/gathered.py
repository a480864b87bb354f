"""Results that are gathered to more devices than the argument that they follow from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.shardings import Sharding

_MOVES = frozenset({
    "parameter", "tuple", "get-tuple-element", "copy", "bitcast", "transpose", "reshape", "all-gather",
    "collective-permute", "all-to-all", "slice", "dynamic-slice", "partition-id", "constant", "async",
})  # fmt: skip

_Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A result that has the whole shape and type of an argument, in fewer pieces. Bytes on each device."""

    argument: str
    result: int
    shape: ArrayShape
    argument_sharding: Sharding
    argument_bytes: int
    result_bytes: int
    fewer: int

    @property
    def more_bytes(self) -> int:
        """What the result takes more than the argument."""
        return self.result_bytes - self.argument_bytes


@dataclass(frozen=True, slots=True)
class _Array:
    name: str
    shape: ArrayShape
    sharding: Sharding

    @property
    def key(self) -> _Key:
        """The type and the dimensions of all its pieces together."""
        dims = zip(self.shape.dims, self.sharding.parts, strict=True)
        return self.shape.element_type.xla_name, tuple(size * parts for size, parts in dims)


def find_gathered(module: Module) -> tuple[Gathered, ...]:
    """The results in fewer pieces than an argument that no other result goes with, largest first.

    An argument goes with one result: first with one in as many pieces. A program that only moves arrays
    has none: to gather is what it is for.
    """
    if all(
        i.opcode.removesuffix("-start").removesuffix("-done") in _MOVES
        for i in module.by_id.values()
    ):
        return ()
    arguments = _by_key(_arguments(module))
    found: list[Gathered] = []
    for key, results in _by_key(_results(module)).items():
        free = sorted(arguments.get(key, []), key=lambda a: -a.sharding.pieces)
        for result in sorted(results, key=lambda r: -r.sharding.pieces):
            if free and free[0].sharding.pieces > result.sharding.pieces:
                found.append(_gathered(free[0], result))
            free = free[1:]
    return tuple(sorted(found, key=lambda g: -g.more_bytes))


def _gathered(argument: _Array, result: _Array) -> Gathered:
    return Gathered(
        argument=argument.name,
        result=int(result.name),
        shape=result.shape,
        argument_sharding=argument.sharding,
        argument_bytes=argument.shape.padded_bytes,
        result_bytes=result.shape.padded_bytes,
        fewer=argument.sharding.pieces // result.sharding.pieces,
    )


def _by_key(arrays: list[_Array]) -> dict[_Key, list[_Array]]:
    found: dict[_Key, list[_Array]] = defaultdict(list)
    for array in arrays:
        if prod(array.shape.dims) > 1:
            found[array.key].append(array)
    return found


def _arguments(module: Module) -> list[_Array]:
    parameters = module.parameters()
    return _arrays(
        [p.op_name or p.name for p in parameters],
        [p.shape for p in parameters],
        module.parameter_shardings,
    )


def _results(module: Module) -> list[_Array]:
    result = module.result()
    shapes = [shape for _, shape in leaves(result.shape)] if result else []
    return _arrays([str(number) for number in range(len(shapes))], shapes, module.result_shardings)


def _arrays(
    names: list[str], shapes: list[Shape], shardings: tuple[Sharding | None, ...]
) -> list[_Array]:
    if len(shardings) != len(shapes):
        return []
    return [
        _Array(name, shape, sharding)
        for name, shape, sharding in zip(names, shapes, shardings, strict=True)
        if isinstance(shape, ArrayShape) and sharding is not None
    ]
