"""A compiled module from its protobuf.

Field numbers are those of openxla/xla `xla/service/hlo.proto`, `xla/service/metrics.proto` and
`xla/xla_data.proto`. Modules have tens of thousands of instructions, so every message is read once.
"""

from __future__ import annotations

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.locations import Frame
from vtpu.program.modules import Alias, Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.reading import literals, operations, shardings, wire

_HLO_PROTO_MODULE = 1  # of HloProto, and of HloModuleProtoWithConfig
_TUPLE = 13
_PAIRED = ("send", "recv")
#: XLA's PrimitiveType to the element types of PJRT.
PRIMITIVE_TYPES = {
    1: "PRED", 2: "S8", 3: "S16", 4: "S32", 5: "S64", 6: "U8", 7: "U16", 8: "U32", 9: "U64",
    10: "F16", 11: "F32", 12: "F64", 15: "C64", 16: "BF16", 17: "TOKEN", 18: "C128",
    19: "F8E5M2", 20: "F8E4M3FN", 21: "S4", 22: "U4", 23: "F8E4M3B11FNUZ", 24: "F8E5M2FNUZ",
    25: "F8E4M3FNUZ", 26: "S2", 27: "U2", 28: "F8E4M3", 29: "F8E3M4", 32: "F4E2M1FN",
    33: "F8E8M0FNU",
}  # fmt: skip


def read_module(data: bytes | memoryview) -> Module:
    """The module of an `HloModuleProto`.

    Raises:
        WireError: the bytes are not one.
    """
    fields = wire.group(data)
    reader = _Reader()
    computations = [reader.computation(wire.as_bytes(c)) for c in fields.get(3, ())]
    schedule = _schedule(wire.last_bytes(fields, 7))
    ordered = {c.id: _scheduled(c, schedule.get(c.id)) for c in computations}
    taken, given = shardings.module_shardings(fields, *_interface(wire.last_bytes(fields, 4)))
    return Module(
        name=wire.last_text(fields, 1),
        entry=wire.last_int(fields, 6) or next((c.id for c in computations[-1:]), 0),
        computations=ordered,
        aliases=tuple(_aliases(wire.last_bytes(fields, 8))),
        stacks=_stacks(wire.last_bytes(fields, 17)),
        is_scheduled=bool(schedule),
        devices=_devices(wire.last_bytes(fields, 15)),
        parameter_shardings=taken,
        result_shardings=given,
    )


def read_wrapped_module(data: bytes | memoryview) -> Module:
    """The module of an `HloProto` or an `HloModuleProtoWithConfig`, which have it in one field.

    Raises:
        WireError: the bytes are neither.
    """
    return read_module(wire.find_bytes(data, _HLO_PROTO_MODULE))


def _interface(program_shape: memoryview) -> tuple[list[Shape], list[Shape]]:
    """The flattened shapes of the parameters and of the result of a `ProgramShapeProto`."""
    fields = wire.group(program_shape)
    parameters = [read_shape(wire.as_bytes(s)) for s in fields.get(1, ())]
    result = read_shape(wire.last_bytes(fields, 2))
    return [s for p in parameters for _, s in leaves(p)], [s for _, s in leaves(result)]


class _Reader:
    """Reads instructions; the same few shapes come again and again."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape] = {}

    def computation(self, data: memoryview) -> Computation:
        fields = wire.group(data)
        return Computation(
            id=wire.last_int(fields, 5),
            name=wire.last_text(fields, 1),
            instructions=tuple(self._instruction(wire.as_bytes(i)) for i in fields.get(2, ())),
            root=wire.last_int(fields, 6),
        )

    def _instruction(self, data: memoryview) -> Instruction:
        fields = wire.group(data)
        opcode = wire.last_text(fields, 2)
        metadata = fields.get(7)
        op_name, frame, place = (
            _metadata(wire.as_bytes(metadata[-1])) if metadata else ("", 0, None)
        )
        return Instruction(
            id=wire.last_int(fields, 35),
            name=wire.last_text(fields, 1),
            opcode=opcode,
            shape=self._shape(wire.last_bytes(fields, 3)),
            operands=wire.all_ints(fields, 36),
            called=wire.all_ints(fields, 38),
            op_name=op_name,
            stack=frame,
            parameter_number=wire.last_int(fields, 9) if opcode == "parameter" else None,
            tuple_index=wire.last_int(fields, 13) if opcode == "get-tuple-element" else None,
            custom_call_target=wire.last_text(fields, 28),
            place=place,
            dimensions=wire.all_ints(fields, 14) if 14 in fields else (),
            window=operations.window(fields),
            dot=operations.dot_dimensions(fields),
            convolution=operations.convolution_dimensions(fields),
            collective=operations.collective(fields),
            value=literals.integer_value(fields) if opcode == "constant" else None,
            elements=literals.small_array(fields) if opcode == "constant" else b"",
            precision=operations.precision(fields),
            rendezvous=operations.rendezvous(fields) if opcode in _PAIRED else {},
            direction=wire.last_text(fields, 63) if 63 in fields else "",
            attributes=bytes(wire.last_bytes(fields, 43)) if 43 in fields else b"",
            fusion_kind=wire.last_text(fields, 11) if opcode == "fusion" else "",
        )

    def _shape(self, data: memoryview) -> Shape:
        key = bytes(data)
        if key not in self._shapes:
            self._shapes[key] = read_shape(data)
        return self._shapes[key]


def read_shape(data: memoryview) -> Shape:
    """The shape of a `ShapeProto`."""
    fields = wire.group(data)
    element_type = wire.last_int(fields, 2)
    if element_type == _TUPLE:
        return tuple(read_shape(wire.as_bytes(s)) for s in fields.get(4, ()))
    name = PRIMITIVE_TYPES.get(element_type)
    if name is None:
        return None
    return ArrayShape(
        ElementType[name], wire.all_ints(fields, 3), _layout(wire.last_bytes(fields, 5))
    )


def _layout(data: memoryview) -> Layout:
    fields = wire.group(data)
    tiles = tuple(tuple(wire.find_ints(wire.as_bytes(t), 1)) for t in fields.get(6, ()))
    return Layout(
        wire.all_ints(fields, 1), tiles, wire.last_int(fields, 7), wire.last_int(fields, 8)
    )


def _metadata(data: memoryview) -> tuple[str, int, Frame | None]:
    """An operation's name, the number of its stack, and its place where there is no stack."""
    fields = wire.group(data)
    file = wire.last_text(fields, 3)
    place = Frame(file, "", wire.last_int(fields, 4)) if file else None
    return wire.last_text(fields, 2), wire.last_int(fields, 15), place


def _devices(assignment: memoryview) -> tuple[int, ...]:
    """The ids of a `DeviceAssignmentProto`, whose columns are partitions and rows replicas."""
    columns = [wire.find_ints(wire.as_bytes(c), 1) for c in wire.find_all(assignment, 3)]
    return tuple(number for row in zip(*columns, strict=False) for number in row)


def _schedule(data: memoryview) -> dict[int, tuple[int, ...]]:
    """Instruction ids by computation id."""
    sequences: dict[int, tuple[int, ...]] = {}
    for entry in wire.find_all(data, 1):
        fields = wire.group(wire.as_bytes(entry))
        sequences[wire.last_int(fields, 1)] = tuple(wire.find_ints(wire.last_bytes(fields, 2), 1))
    return sequences


def _scheduled(computation: Computation, order: tuple[int, ...] | None) -> Computation:
    if not order:
        return computation
    by_id = {i.id: i for i in computation.instructions}
    chosen = tuple(by_id.pop(i) for i in order if i in by_id)
    return Computation(
        id=computation.id,
        name=computation.name,
        instructions=(*chosen, *by_id.values()),
        root=computation.root,
    )


def _aliases(data: memoryview) -> list[Alias]:
    return [
        Alias(
            output=tuple(wire.find_ints(wire.as_bytes(entry), 1)),
            parameter=wire.find_int(wire.as_bytes(entry), 2),
            parameter_index=tuple(wire.find_ints(wire.as_bytes(entry), 3)),
        )
        for entry in wire.find_all(data, 1)
    ]


def _stacks(index: memoryview) -> tuple[tuple[Frame, ...], ...]:
    """The stacks of a `StackFrameIndexProto`. All numbers in it count from 1."""
    fields = wire.group(index)
    files = [bytes(wire.as_bytes(v)).decode(errors="replace") for v in fields.get(1, ())]
    functions = [bytes(wire.as_bytes(v)).decode(errors="replace") for v in fields.get(2, ())]
    places = [wire.group(wire.as_bytes(v)) for v in fields.get(3, ())]
    parents: list[int] = [0]
    own: list[Frame | None] = [None]
    for frame in fields.get(4, ()):
        numbers = wire.group(wire.as_bytes(frame))
        own.append(_frame(places, wire.last_int(numbers, 1), files, functions))
        parents.append(wire.last_int(numbers, 2))
    return ((), *(tuple(_chain(number, own, parents)) for number in range(1, len(own))))


def _frame(
    places: list[wire.Fields], number: int, files: list[str], functions: list[str]
) -> Frame | None:
    if not 0 < number <= len(places):
        return None
    place = places[number - 1]
    file, function = wire.last_int(place, 1), wire.last_int(place, 2)
    line = wire.last_int(place, 3)
    if not 0 < file <= len(files) or not files[file - 1]:
        return None
    name = functions[function - 1] if 0 < function <= len(functions) else ""
    return Frame(
        files[file - 1],
        name,
        line,
        wire.last_int(place, 4),
        wire.last_int(place, 5),
        wire.last_int(place, 6),
    )


def _chain(number: int, own: list[Frame | None], parents: list[int]) -> list[Frame]:
    frames: list[Frame] = []
    seen: set[int] = set()
    while 0 < number < len(own) and number not in seen:  # a damaged index may go in a circle
        seen.add(number)
        if (frame := own[number]) is not None:
            frames.append(frame)
        number = parents[number]
    return frames
