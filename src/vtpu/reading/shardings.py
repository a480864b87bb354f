"""How a compiled program says that its arguments and results are spread over its devices.

Field numbers are those of `HloModuleProto` (openxla/xla `xla/service/hlo.proto`) and `OpSharding`
(`xla/xla_data.proto`).
"""

from __future__ import annotations

from collections.abc import Sequence

from vtpu.program.shapes import ArrayShape, Shape
from vtpu.program.shardings import Sharding
from vtpu.reading import wire

_MODULE, _OUTPUTS, _PARAMETERS = 1, 12, 14
_TYPE, _TILES, _TUPLE, _NAMED = 1, 3, 5, 14
_IS_REPLICATED, _IS_TUPLE, _IS_TILED = 0, 2, 3
_MESH, _DIMENSIONS = 2, 3  # of NamedShardingProto
_AXES, _AXIS_NAME, _AXIS_SIZE = 1, 1, 2  # axes of a mesh and of a dimension; name and size of one
_AXIS_INDEX, _SUB_AXIS, _SUB_AXIS_SIZE = 1, 2, 2


def read_shardings(hlo_with_config: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The shardings of the parameters and of the results, each a serialized `OpSharding`.

    Empty where the partitioner wrote none.

    Raises:
        WireError: the bytes are not such a message.
    """
    fields = wire.group(wire.find_bytes(hlo_with_config, _MODULE))
    return _flat(_messages(fields, _PARAMETERS)), _flat(_messages(fields, _OUTPUTS))


def module_shardings(
    module: wire.Fields, parameters: Sequence[Shape], results: Sequence[Shape]
) -> tuple[tuple[Sharding | None, ...], tuple[Sharding | None, ...]]:
    """How the parameters and results of an `HloModuleProto` are cut, whose flattened shapes are given.

    Empty where the partitioner wrote none.

    Raises:
        WireError: a sharding is damaged.
    """
    cut = (_flat(_messages(module, number)) for number in (_PARAMETERS, _OUTPUTS))
    pairs = zip(cut, (parameters, results), strict=True)
    found, given = (_of_shapes(shardings, shapes) for shardings, shapes in pairs)
    return found, given


def _of_shapes(
    shardings: tuple[bytes, ...], shapes: Sequence[Shape]
) -> tuple[Sharding | None, ...]:
    if len(shardings) != len(shapes):
        return ()
    return tuple(
        read_sharding(cut, len(shape.dims)) if isinstance(shape, ArrayShape) else None
        for cut, shape in zip(shardings, shapes, strict=True)
    )


def _messages(fields: wire.Fields, number: int) -> list[memoryview]:
    return [m for m in fields.get(number, []) if isinstance(m, memoryview)]


def _flat(shardings: list[memoryview]) -> tuple[bytes, ...]:
    """One for each array; a tuple's in its order."""
    if len(shardings) == 1 and wire.find_int(shardings[0], _TYPE) == _IS_TUPLE:
        shardings = _messages(wire.group(shardings[0]), _TUPLE)
    return tuple(bytes(sharding) for sharding in shardings)


def parts_along(op_sharding: bytes, rank: int) -> tuple[int, ...] | None:
    """Into how many parts each of `rank` dimensions is cut; None when the sharding does not say.

    Raises:
        WireError: the bytes are no `OpSharding`.
    """
    found = read_sharding(op_sharding, rank)
    return found.parts if found else None


def read_sharding(op_sharding: bytes, rank: int) -> Sharding | None:
    """How an array of `rank` dimensions is cut; None when the sharding does not say.

    Raises:
        WireError: the bytes are no `OpSharding`.
    """
    fields = wire.group(op_sharding)
    if _NAMED in fields:
        return _named(wire.last_bytes(fields, _NAMED), rank)
    kind = wire.last_int(fields, _TYPE)
    if kind == _IS_REPLICATED:
        return Sharding(parts=(1,) * rank)
    parts = wire.all_ints(fields, _TILES)[:rank] if kind == _IS_TILED else ()
    return Sharding(parts=parts) if len(parts) == rank else None


def _named(sharding: bytes | memoryview, rank: int) -> Sharding:
    """The same of a `NamedShardingProto`: each dimension names the mesh's axes that cut it."""
    fields = wire.group(sharding)
    mesh = tuple(_axis(axis) for axis in wire.group(wire.last_bytes(fields, _MESH)).get(_AXES, []))
    parts = [1] * rank
    axes: list[list[str]] = [[] for _ in range(rank)]
    for i, dimension in enumerate(fields.get(_DIMENSIONS, [])[:rank]):
        for reference in wire.group(wire.as_bytes(dimension)).get(_AXES, []):
            name, size = _axis_of(wire.group(wire.as_bytes(reference)), mesh)
            parts[i] *= size
            axes[i].append(name)
    return Sharding(parts=tuple(parts), axes=tuple(map(tuple, axes)), mesh=mesh)


def _axis(axis: wire.Value) -> tuple[str, int]:
    fields = wire.group(wire.as_bytes(axis))
    return wire.last_text(fields, _AXIS_NAME), wire.last_int(fields, _AXIS_SIZE)


def _axis_of(reference: wire.Fields, mesh: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """The axis that a dimension names by its index, with its size or that of the part that it names."""
    index = wire.last_int(reference, _AXIS_INDEX)
    if index >= len(mesh):
        raise wire.WireError("a sharding names an axis that its mesh does not have")
    name, size = mesh[index]
    if part := wire.last_bytes(reference, _SUB_AXIS):
        size = wire.last_int(wire.group(part), _SUB_AXIS_SIZE)
    return name, size
