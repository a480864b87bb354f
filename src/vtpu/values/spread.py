"""Which part of an array each device of a program holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]


@dataclass(frozen=True, slots=True)
class Spread:
    """`parts[device]` is the number of its part; devices with the same number hold the same."""

    parts: tuple[int, ...]

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return not any(self.parts)


def parse_spread(op_sharding: bytes, num_devices: int) -> Spread | None:
    """What a serialized `OpSharding` says; None when it does not say which part is where."""
    message = xla_client.OpSharding()
    message.ParseFromString(op_sharding)
    sharding = xla_client.HloSharding.from_proto(message).v3_to_v2_sharding()
    if sharding.is_replicated():
        return Spread((0,) * num_devices)
    if not sharding.is_tiled():
        return None
    devices = list(sharding.tile_assignment_devices())
    copies = _copies(sharding)
    if sorted(devices) != list(range(num_devices)) or not copies:
        return None
    parts = [0] * num_devices
    for place, device in enumerate(devices):
        parts[device] = place // copies
    return Spread(tuple(parts))


def _copies(sharding: Any) -> int:
    """How many devices in a row hold the same part; 0 when that cannot be said."""
    dimensions = list(sharding.tile_assignment_dimensions())
    if sharding.replicate_on_last_tile_dim():
        return dimensions[-1]
    types = list(sharding.subgroup_types())
    if any(t != xla_client.OpSharding.Type.REPLICATED for t in types):  # manual along some
        return 0
    return math.prod(dimensions[len(dimensions) - len(types) :])
