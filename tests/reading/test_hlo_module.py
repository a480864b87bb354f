"""What is read of a compiled module, and its source lines put back."""

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import parse_layout
from vtpu.program.locations import Frame
from vtpu.program.shapes import ArrayShape
from vtpu.reading import wire
from vtpu.reading.hlo_module import HostTransfer, read_interface, replace_stack_frames

field = wire.write_field
F32 = 11  # XLA's number for it


def shape(dims, element_type=F32):
    layout = b"".join(field(1, d) for d in reversed(range(len(dims))))
    layout += field(6, field(1, wire.write_varint(8) + wire.write_varint(128)))
    return (
        field(2, element_type) + field(3, b"".join(map(wire.write_varint, dims))) + field(5, layout)
    )


def tuple_shape(*elements):
    return field(2, 13) + b"".join(field(4, e) for e in elements)


def module(parameters=(), extra=b""):
    program_shape = b"".join(field(1, p) for p in parameters)
    return field(1, field(1, "jit_f") + field(4, program_shape) + extra)


def array(dims):
    order = "{" + ",".join(map(str, reversed(range(len(dims))))) + ":T(8,128)}"
    return ArrayShape(ElementType.F32, dims, parse_layout(order))


def test_parameters_have_their_shape_and_layout():
    interface = read_interface(module([shape((16, 256)), shape((8, 128))]))
    assert interface.parameters == (array((16, 256)), array((8, 128)))


def test_parameters_in_one_tuple_are_flattened_and_so_are_aliases_to_them():
    alias = field(1, 0) + field(2, 0) + field(3, b"\1")
    data = module([tuple_shape(shape((16, 256)), shape((8, 128)))], field(8, field(1, alias)))
    interface = read_interface(data)
    assert interface.parameters == (array((16, 256)), array((8, 128)))
    assert interface.aliases == {0: 1}


def test_aliases_are_read():
    aliases = field(1, field(1, b"\2") + field(2, 1)) + field(1, field(2, 0))
    assert read_interface(module([], field(8, aliases))).aliases == {2: 1, 0: 0}


def test_results_are_flattened_and_one_result_needs_no_tuple():
    one = field(1, field(4, field(2, shape((8, 128)))))
    assert read_interface(one).results == (array((8, 128)),)
    two = field(1, field(4, field(2, tuple_shape(shape((8, 128)), shape((16, 256))))))
    assert read_interface(two).results == (array((8, 128)), array((16, 256)))
    assert read_interface(field(1, field(4, field(2, tuple_shape())))).results == ()


def instruction(opcode, rendezvous, sharding=b"", dims=(2, 4)):
    attribute = field(1, "_xla_host_transfer_rendezvous") + field(2, rendezvous)
    return (
        field(2, opcode)
        + field(3, tuple_shape(shape(dims), shape((), 17)))
        + field(40, sharding)
        + field(47, 1)
        + field(68, field(1, attribute))
    )


def test_host_transfers_have_their_channel_direction_type_and_bytes():
    computation = field(2, instruction("send", "4")) + field(2, instruction("recv", "5"))
    interface = read_interface(module([], field(3, computation)))
    assert interface.host_transfers == (
        HostTransfer(4, True, ElementType.F32, 32, None),
        HostTransfer(5, False, ElementType.F32, 32, None),
    )


def test_a_transfer_of_one_device_says_which():
    maximal = field(1, 1) + field(4, b"\3")
    in_tuple = field(1, 2) + field(5, maximal) + field(5, maximal)
    computation = field(2, instruction("send", "1", in_tuple))
    (transfer,) = read_interface(module([], field(3, computation))).host_transfers
    assert transfer.only_on == 3


def test_operation_numbers_become_the_lines_of_the_user():
    index = (
        field(1, "vtpu")
        + field(2, "vtpu")
        + field(3, field(1, 1) + field(2, 1) + field(3, 0))
        + field(3, field(1, 1) + field(2, 1) + field(3, 1))
        + field(4, field(1, 2))
        + field(4, field(1, 1))
    )
    outer = Frame("train.py", "main", 30)
    stacks = [(outer,), (Frame("model.py", "layer", 7, 4, 7, 20), outer)]
    data = replace_stack_frames(module([], field(17, index)), "vtpu", stacks)
    assert frames_of(data) == {1: [("model.py", "layer", 7), ("train.py", "main", 30)],
                               2: [("train.py", "main", 30)]}  # fmt: skip
    assert read_interface(data) == read_interface(module([], field(17, index)))


def frames_of(data):
    index = wire.find_bytes(wire.find_bytes(data, 1), 17)
    files = [bytes(v).decode() for v in wire.find_all(index, 1)]
    functions = [bytes(v).decode() for v in wire.find_all(index, 2)]
    places = wire.find_all(index, 3)
    frames = wire.find_all(index, 4)

    def chain(number):
        while number:
            frame = frames[number - 1]
            place = places[wire.find_int(frame, 1) - 1]
            yield (
                files[wire.find_int(place, 1) - 1],
                functions[wire.find_int(place, 2) - 1],
                wire.find_int(place, 3),
            )
            number = wire.find_int(frame, 2)

    return {n: list(chain(n)) for n in (1, 2)}


def test_an_operation_without_a_line_keeps_an_empty_frame():
    index = field(1, "vtpu") + field(2, "f") + field(3, field(1, 1) + field(2, 1) + field(3, 0))
    index += field(4, field(1, 1))
    data = replace_stack_frames(module([], field(17, index)), "vtpu", [()])
    rewritten = wire.find_bytes(wire.find_bytes(data, 1), 17)
    (place,) = wire.find_all(rewritten, 3)
    assert wire.find_int(place, 3) == 0
