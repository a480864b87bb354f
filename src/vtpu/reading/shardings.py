"""How a compiled program says that its arguments and results are spread over its devices.

Field numbers are those of `HloModuleProto` (openxla/xla `xla/service/hlo.proto`) and `OpSharding`
(`xla/xla_data.proto`).
"""

from __future__ import annotations

from vtpu.reading import wire

_MODULE, _OUTPUTS, _PARAMETERS = 1, 12, 14
_TYPE, _TILES, _TUPLE, _NAMED = 1, 3, 5, 14
_IS_REPLICATED, _IS_TUPLE, _IS_TILED = 0, 2, 3
_MESH, _DIMENSIONS = 2, 3  # of NamedShardingProto
_AXES, _AXIS_SIZE = 1, 2  # axes of a mesh and of a dimension; the size of one
_AXIS_INDEX, _SUB_AXIS, _SUB_AXIS_SIZE = 1, 2, 2


def read_shardings(hlo_with_config: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The shardings of the parameters and of the results, each a serialized `OpSharding`.

    Empty where the partitioner wrote none.

    Raises:
        WireError: the bytes are not such a message.
    """
    module = wire.find_bytes(hlo_with_config, _MODULE)
    return _flat(_messages(module, _PARAMETERS)), _flat(_messages(module, _OUTPUTS))


def _messages(message: bytes | memoryview, number: int) -> list[memoryview]:
    return [m for m in wire.find_all(message, number) if isinstance(m, memoryview)]


def _flat(shardings: list[memoryview]) -> tuple[bytes, ...]:
    """One for each array; a tuple's in its order."""
    if len(shardings) == 1 and wire.find_int(shardings[0], _TYPE) == _IS_TUPLE:
        shardings = _messages(shardings[0], _TUPLE)
    return tuple(bytes(sharding) for sharding in shardings)


def parts_along(op_sharding: bytes, rank: int) -> tuple[int, ...] | None:
    """Into how many parts each of `rank` dimensions is cut; None when the sharding does not say.

    Raises:
        WireError: the bytes are no `OpSharding`.
    """
    fields = wire.group(op_sharding)
    if _NAMED in fields:
        return _parts_of_named(wire.last_bytes(fields, _NAMED), rank)
    kind = wire.last_int(fields, _TYPE)
    if kind == _IS_REPLICATED:
        return (1,) * rank
    parts = wire.all_ints(fields, _TILES)[:rank] if kind == _IS_TILED else ()
    return parts if len(parts) == rank else None


def _parts_of_named(sharding: bytes | memoryview, rank: int) -> tuple[int, ...]:
    """The same of a `NamedShardingProto`: each dimension names the mesh's axes that cut it."""
    fields = wire.group(sharding)
    mesh = wire.group(wire.last_bytes(fields, _MESH))
    sizes = [wire.last_int(wire.group(wire.as_bytes(a)), _AXIS_SIZE) for a in mesh.get(_AXES, [])]
    parts = [1] * rank
    for i, dimension in enumerate(fields.get(_DIMENSIONS, [])[:rank]):
        for axis in wire.group(wire.as_bytes(dimension)).get(_AXES, []):
            parts[i] *= _axis_size(wire.group(wire.as_bytes(axis)), sizes)
    return tuple(parts)


def _axis_size(reference: wire.Fields, sizes: list[int]) -> int:
    """The size of an axis that a dimension names by its index, or of the part of it that it names."""
    if part := wire.last_bytes(reference, _SUB_AXIS):
        return wire.last_int(wire.group(part), _SUB_AXIS_SIZE)
    return sizes[wire.last_int(reference, _AXIS_INDEX)]
