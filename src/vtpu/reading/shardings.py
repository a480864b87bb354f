"""How a compiled program's arguments and results are spread over its devices.

Field numbers are those of `HloModuleProto` (openxla/xla `xla/service/hlo.proto`) and `OpSharding`
(`xla/xla_data.proto`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtpu.reading import wire

_MODULE, _OUTPUTS, _PARAMETERS = 1, 12, 14
_TYPE, _DIMENSIONS, _DEVICES, _TUPLE, _REPLICATED_LAST = 1, 3, 4, 5, 6
_LAST_TYPES, _RESHAPE, _TRANSPOSE = 8, 9, 10
_IS_REPLICATED, _IS_TUPLE, _IS_TILED = 0, 2, 3


@dataclass(frozen=True, slots=True)
class Spread:
    """Which part of an array each device of a program holds.

    `parts[device]` is the number of its part; devices with the same number hold the same.
    """

    parts: tuple[int, ...]

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return not any(self.parts)


def read_spreads(
    hlo_with_config: bytes, num_devices: int
) -> tuple[tuple[Spread | None, ...], tuple[Spread | None, ...]]:
    """The spreads of the parameters and of the results; None where the partitioner wrote none.

    Raises:
        WireError: the bytes are not such a message.
    """
    module = wire.find_bytes(hlo_with_config, _MODULE)
    parameters = _flat(_messages(module, _PARAMETERS), num_devices)
    return parameters, _flat(_messages(module, _OUTPUTS), num_devices)


def _messages(message: bytes | memoryview, number: int) -> list[memoryview]:
    return [m for m in wire.find_all(message, number) if isinstance(m, memoryview)]


def _flat(shardings: list[memoryview], num_devices: int) -> tuple[Spread | None, ...]:
    """One for each array; a tuple's in its order."""
    if len(shardings) == 1 and wire.find_int(shardings[0], _TYPE) == _IS_TUPLE:
        shardings = _messages(shardings[0], _TUPLE)
    return tuple(_spread(s, num_devices) for s in shardings)


def _spread(sharding: memoryview, num_devices: int) -> Spread | None:
    kind = wire.find_int(sharding, _TYPE)
    if kind == _IS_REPLICATED:
        return Spread((0,) * num_devices)
    if kind != _IS_TILED:
        return None
    dimensions = wire.find_ints(sharding, _DIMENSIONS)
    devices = _assigned_devices(sharding)
    copies = _copies(sharding, dimensions)
    if sorted(devices) != list(range(num_devices)) or not copies:
        return None
    parts = [0] * num_devices
    for place, device in enumerate(devices):
        parts[device] = place // copies
    return Spread(tuple(parts))


def _copies(sharding: memoryview, dimensions: list[int]) -> int:
    """How many devices in a row hold the same part; 0 when that cannot be said."""
    if wire.find_int(sharding, _REPLICATED_LAST):
        return dimensions[-1]
    types = wire.find_ints(sharding, _LAST_TYPES)
    if not types:
        return 1
    if any(types):  # manual or unreduced along some
        return 0
    return math.prod(dimensions[-len(types) :])


def _assigned_devices(sharding: memoryview) -> list[int]:
    """The devices in the order of the tiles: listed, or a transposed iota."""
    if listed := wire.find_ints(sharding, _DEVICES):
        return listed
    shape = wire.find_ints(sharding, _RESHAPE)
    order = wire.find_ints(sharding, _TRANSPOSE)
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    devices = [0]
    for axis in order:
        devices = [d + i * strides[axis] for d in devices for i in range(shape[axis])]
    return devices
