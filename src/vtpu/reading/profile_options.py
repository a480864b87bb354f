"""What vtpu needs of the options of a profile (`ProfileOptions`).

Field numbers are those of openxla/xla `third_party/tsl/tsl/profiler/protobuf/profiler_options.proto`.
"""

from __future__ import annotations

from vtpu.reading import wire

_DEVICE_TRACER_LEVEL, _ADVANCED_CONFIGURATION = 3, 12
_TPU_TRACE_MODE, _ONLY_HOST = "tpu_trace_mode", "TRACE_ONLY_HOST"


def asks_for_devices(data: bytes) -> bool:
    """Whether the profile is to hold what happened on the devices.

    Raises:
        WireError: the bytes are not such a message.
    """
    for entry in wire.find_all(data, _ADVANCED_CONFIGURATION):
        if isinstance(entry, memoryview) and wire.find_text(entry, 1) == _TPU_TRACE_MODE:
            mode = wire.find_text(wire.find_bytes(entry, 2), 1)
            return mode != _ONLY_HOST
    return wire.find_int(data, _DEVICE_TRACER_LEVEL) > 0
