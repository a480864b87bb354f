"""How a compiled program says that its arguments and results are spread over its devices.

Field numbers are those of `HloModuleProto` (openxla/xla `xla/service/hlo.proto`) and `OpSharding`
(`xla/xla_data.proto`).
"""

from __future__ import annotations

from vtpu.reading import wire

_MODULE, _OUTPUTS, _PARAMETERS = 1, 12, 14
_TYPE, _TUPLE = 1, 5
_IS_TUPLE = 2


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
