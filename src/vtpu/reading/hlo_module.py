"""What vtpu needs of a compiled module: parameters, donation, host transfers; and its source lines.

Field numbers are those of openxla/xla `xla/service/hlo.proto` and `xla/xla_data.proto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vtpu.program.element_types import ElementType
from vtpu.program.locations import Frame
from vtpu.program.shapes import ArrayShape
from vtpu.reading import wire
from vtpu.reading.modules import read_shape

# HloModuleProtoWithConfig
_WITH_CONFIG_MODULE = 1
# HloModuleProto
_COMPUTATIONS, _PROGRAM_SHAPE, _ALIASES, _STACK_FRAMES = 3, 4, 8, 17
# HloComputationProto, HloInstructionProto
_INSTRUCTIONS = 2
_OPCODE, _SHAPE, _SHARDING, _IS_HOST_TRANSFER, _FRONTEND_ATTRIBUTES = 2, 3, 40, 47, 68
_RENDEZVOUS = "_xla_host_transfer_rendezvous"
_MAXIMAL, _TUPLE_SHARDING = 1, 2

_TUPLE = 13


@dataclass(frozen=True, slots=True)
class HostTransfer:
    """A channel between a program and the host.

    `only_on` is the one logical device (replica x partition) that takes part, or None for all.
    """

    channel: int
    is_send: bool
    element_type: ElementType
    logical_bytes: int
    only_on: int | None


@dataclass(frozen=True, slots=True)
class ModuleInterface:
    """How a compiled module is called.

    `parameters` and `results`: flattened; None for one of a type unknown to PJRT. `aliases`: output
    to parameter, flattened.
    """

    parameters: tuple[ArrayShape | None, ...]
    results: tuple[ArrayShape | None, ...]
    aliases: dict[int, int]
    host_transfers: tuple[HostTransfer, ...]


def read_interface(hlo_with_config: bytes) -> ModuleInterface:
    """The interface of a module as `PJRT_Executable_OptimizedProgram` returns it.

    Raises:
        WireError: the bytes are not such a module.
    """
    module = wire.find_bytes(hlo_with_config, _WITH_CONFIG_MODULE)
    fields: dict[int, list[wire.Value]] = {}
    for number, value in wire.read_fields(module):
        fields.setdefault(number, []).append(value)
    program_shape = wire.last_bytes(fields, _PROGRAM_SHAPE)
    parameters = [wire.as_bytes(s) for s in wire.find_all(program_shape, 1)]
    is_tuple = len(parameters) == 1 and _is_tuple(parameters[0])
    return ModuleInterface(
        parameters=_read_shapes(_elements(parameters[0]) if is_tuple else parameters),
        results=_read_shapes(_elements(wire.find_bytes(program_shape, 2))),
        aliases=_read_aliases(wire.last_bytes(fields, _ALIASES), is_tuple),
        host_transfers=tuple(_read_host_transfers(module, fields)),
    )


def _is_tuple(shape: memoryview) -> bool:
    return wire.find_int(shape, 2) == _TUPLE


def _elements(shape: memoryview) -> list[memoryview]:
    """The elements of a tuple; an array is the only element of itself."""
    return [wire.as_bytes(s) for s in wire.find_all(shape, 4)] if _is_tuple(shape) else [shape]


def _read_shapes(shapes: list[memoryview]) -> tuple[ArrayShape | None, ...]:
    return tuple(_read_shape(shape) for shape in shapes)


def _read_shape(shape: memoryview) -> ArrayShape | None:
    found = read_shape(shape)
    return found if isinstance(found, ArrayShape) else None


def _flat_parameter(number: int, index: list[int], is_tuple: bool) -> int:
    return index[0] if is_tuple and index else number


def _read_aliases(table: memoryview, is_tuple: bool) -> dict[int, int]:
    aliases: dict[int, int] = {}
    for entry in wire.find_all(table, 1):
        if isinstance(entry, memoryview):
            output = wire.find_ints(entry, 1)
            parameter = _flat_parameter(wire.find_int(entry, 2), wire.find_ints(entry, 3), is_tuple)
            aliases[output[0] if output else 0] = parameter
    return aliases


# ---- host transfers ----------------------------------------------------------------------------


def _read_host_transfers(
    module: memoryview, fields: dict[int, list[wire.Value]]
) -> list[HostTransfer]:
    """Sends and receives with the host, in the order of the module.

    Looking at every instruction costs time, so modules that never name a rendezvous are left out.
    """
    if _RENDEZVOUS.encode() not in bytes(module):
        return []
    transfers: dict[int, HostTransfer] = {}
    for computation in fields.get(_COMPUTATIONS, []):
        for instruction in wire.find_all(wire.as_bytes(computation), _INSTRUCTIONS):
            transfer = _read_host_transfer(wire.as_bytes(instruction))
            if transfer:
                transfers.setdefault(transfer.channel, transfer)
    return list(transfers.values())


def _read_host_transfer(instruction: memoryview) -> HostTransfer | None:
    opcode = wire.find_text(instruction, _OPCODE)
    if opcode not in ("send", "recv") or not wire.find_int(instruction, _IS_HOST_TRANSFER):
        return None
    channel = _frontend_attribute(instruction, _RENDEZVOUS)
    if not channel.isdecimal():
        return None
    elements = wire.find_all(wire.find_bytes(instruction, _SHAPE), 4)
    shape = _read_shape(wire.as_bytes(elements[0])) if elements else None
    kind = shape.element_type if shape else ElementType.INVALID
    size = prod(shape.dims) * kind.host_bytes if shape else 0
    only_on = _maximal_device(wire.find_bytes(instruction, _SHARDING))
    return HostTransfer(int(channel), opcode == "send", kind, size, only_on)


def _frontend_attribute(instruction: memoryview, key: str) -> str:
    for entry in wire.find_all(wire.find_bytes(instruction, _FRONTEND_ATTRIBUTES), 1):
        if wire.find_text(wire.as_bytes(entry), 1) == key:
            return wire.find_text(wire.as_bytes(entry), 2)
    return ""


def _maximal_device(sharding: memoryview) -> int | None:
    if wire.find_int(sharding, 1) == _TUPLE_SHARDING:
        parts = wire.find_all(sharding, 5)
        return _maximal_device(wire.as_bytes(parts[0])) if parts else None
    if wire.find_int(sharding, 1) != _MAXIMAL:
        return None
    devices = wire.find_ints(sharding, 4)
    return devices[0] if devices else None


# ---- source lines ------------------------------------------------------------------------------


def replace_stack_frames(
    hlo_with_config: bytes, canonical_file: str, stacks: Sequence[tuple[Frame, ...]]
) -> bytes:
    """The module with real source lines in place of operation numbers.

    The frames of a canonical program stand in `canonical_file` at the line of their operation's
    number; `stacks[number]` is its real stack, innermost frame first. Numbers of frames stay.
    """
    return wire.replace(
        hlo_with_config,
        _WITH_CONFIG_MODULE,
        lambda module: wire.replace(
            module, _STACK_FRAMES, lambda index: _rewrite_index(index, canonical_file, stacks)
        ),
    )


def _rewrite_index(
    index: memoryview, canonical_file: str, stacks: Sequence[tuple[Frame, ...]]
) -> bytes:
    files = [bytes(wire.as_bytes(v)).decode() for v in wire.find_all(index, 1)]
    places = [wire.as_bytes(v) for v in wire.find_all(index, 3)]
    builder = _FrameIndex()
    chains: list[tuple[Frame, ...]] = []
    for frame in wire.find_all(index, 4):
        place = places[wire.find_int(wire.as_bytes(frame), 1) - 1]
        line = wire.find_int(place, 3)
        is_canonical = files[wire.find_int(place, 1) - 1] == canonical_file
        known = is_canonical and line < len(stacks)
        chains.append(stacks[line] if known else ())
    builder.reserve(len(chains))
    for number, chain in enumerate(chains, start=1):
        builder.set(number, chain)
    return builder.encode()


class _FrameIndex:
    """A StackFrameIndexProto under construction. All numbers in it count from 1; 0 means none."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._places: dict[bytes, int] = {}
        self._frames: list[tuple[int, int]] = []
        self._outer: dict[tuple[Frame, ...], int] = {}

    def reserve(self, count: int) -> None:
        """Makes frames 1 to `count`, to be set."""
        self._frames = [(0, 0)] * count

    def set(self, number: int, chain: tuple[Frame, ...]) -> None:
        """Frame `number` is the innermost of `chain`."""
        if not chain:
            self._frames[number - 1] = (self._place(Frame("", "", 0)), 0)
        else:
            self._frames[number - 1] = (self._place(chain[0]), self._parent(chain[1:]))

    def _parent(self, chain: tuple[Frame, ...]) -> int:
        if not chain:
            return 0
        if chain not in self._outer:
            frame = (self._place(chain[0]), self._parent(chain[1:]))
            self._frames.append(frame)
            self._outer[chain] = len(self._frames)
        return self._outer[chain]

    def _place(self, frame: Frame) -> int:
        file = self._files.setdefault(frame.file, len(self._files) + 1)
        function = self._functions.setdefault(frame.function, len(self._functions) + 1)
        numbers = (file, function, frame.line, frame.column, frame.end_line, frame.end_column)
        place = b"".join(wire.write_field(i, n) for i, n in enumerate(numbers, start=1))
        return self._places.setdefault(place, len(self._places) + 1)

    def encode(self) -> bytes:
        """The message."""
        parts = [wire.write_field(1, name) for name in self._files]
        parts += [wire.write_field(2, name) for name in self._functions]
        parts += [wire.write_field(3, place) for place in self._places]
        parts += [
            wire.write_field(4, wire.write_field(1, place) + wire.write_field(2, parent))
            for place, parent in self._frames
        ]
        return b"".join(parts)
