"""What vtpu needs of the compile options that JAX sends (`CompileOptionsProto`).

Field numbers are those of openxla/xla `xla/pjrt/proto/compile_options.proto`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vtpu.reading import wire

_BUILD_OPTIONS, _DEBUG_OPTIONS = 3, 3
_DUMP_FOLDER = 109  # of DebugOptions
_OVERRIDES = 7  # a map from the name of a flag to its value
_OVERRIDE_TEXT, _OVERRIDE_BOOL = 1, 2
_NUM_REPLICAS, _NUM_PARTITIONS, _DEVICE_ASSIGNMENT = 4, 5, 9


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a program is to be spread.

    `device_ids[replica * num_partitions + partition]`; None for a portable program, whose device
    arrives with each execution. `assignment` is the serialized `DeviceAssignmentProto`.
    """

    num_replicas: int
    num_partitions: int
    device_ids: tuple[int, ...] | None
    assignment: bytes


def read_compile_options(data: bytes) -> CompileOptions:
    """The options in `data`.

    Raises:
        WireError: the bytes are not such a message.
    """
    build = wire.find_bytes(data, _BUILD_OPTIONS)
    assignment = bytes(wire.find_bytes(build, _DEVICE_ASSIGNMENT))
    return CompileOptions(
        num_replicas=max(1, wire.find_int(build, _NUM_REPLICAS)),
        num_partitions=max(1, wire.find_int(build, _NUM_PARTITIONS)),
        device_ids=_device_ids(assignment) if assignment else None,
        assignment=assignment,
    )


def _device_ids(assignment: bytes) -> tuple[int, ...]:
    columns = [  # one per partition: the device of each replica
        wire.find_ints(column, 1)
        for column in wire.find_all(assignment, 3)
        if isinstance(column, memoryview)
    ]
    return tuple(ids[replica] for replica in range(len(columns[0])) for ids in columns)


def encode_assignment(num_replicas: int, num_partitions: int, device_ids: tuple[int, ...]) -> bytes:
    """A `DeviceAssignmentProto` for devices in the order of replica and partition."""
    out = wire.write_field(1, num_replicas) + wire.write_field(2, num_partitions)
    for partition in range(num_partitions):
        ids = device_ids[partition::num_partitions]
        packed = b"".join(wire.write_varint(i) for i in ids)
        out += wire.write_field(3, wire.write_field(1, packed))
    return out


def on_device(data: bytes, device_id: int) -> bytes:
    """The options of a program for one device, moved to `device_id`."""
    assignment = encode_assignment(1, 1, (device_id,))
    return wire.replace(
        data,
        _BUILD_OPTIONS,
        lambda build: wire.replace(bytes(build), _DEVICE_ASSIGNMENT, lambda _: assignment),
    )


def dump_folder(data: bytes) -> str:
    """Where the user wants the compiler to dump what it does; empty for nowhere."""
    for override in wire.find_all(data, _OVERRIDES):
        if isinstance(override, memoryview) and wire.find_text(override, 1) == "xla_dump_to":
            return wire.find_text(wire.find_bytes(override, 2), _OVERRIDE_TEXT)
    debug = wire.find_bytes(wire.find_bytes(data, _BUILD_OPTIONS), _DEBUG_OPTIONS)
    return wire.find_text(debug, _DUMP_FOLDER)


def with_dump(data: bytes, folder: str) -> bytes:
    """The options with which the compiler dumps protobufs of what it does to `folder`."""
    where = wire.write_field(_OVERRIDE_TEXT, folder)
    as_protobufs = wire.write_field(_OVERRIDE_BOOL, 1)
    return data + _override("xla_dump_to", where) + _override("xla_dump_hlo_as_proto", as_protobufs)


def _override(flag: str, value: bytes) -> bytes:
    entry = wire.write_field(1, flag) + wire.write_field(2, value)
    return wire.write_field(_OVERRIDES, entry)


def normalize(data: bytes) -> bytes:
    """The same options in one order of bytes, whatever order protobuf's maps came out in.

    The order of fields says nothing. Debug options hold maps and lists of names, in which the order
    of entries says nothing either.
    """
    return _sort(data, {_BUILD_OPTIONS: {_DEBUG_OPTIONS: {}}})


def _sort(data: bytes | memoryview, inner: dict[int, Any]) -> bytes:
    fields: list[bytes] = []
    for number, value, span in wire.read_spans(data):
        if number in inner and isinstance(value, memoryview):
            fields.append(wire.write_field(number, _sort(value, inner[number])))
        else:
            fields.append(bytes(span))
    return b"".join(sorted(fields))
