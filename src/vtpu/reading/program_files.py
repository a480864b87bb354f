"""A program's module and buffer assignment from one file that XLA wrote."""

from __future__ import annotations

from vtpu.program.memory import BufferAssignment, ProgramMemory
from vtpu.program.modules import Module
from vtpu.reading import wire
from vtpu.reading.buffer_assignment import find_assignment, read_assignment
from vtpu.reading.hlo_text import read_hlo_text
from vtpu.reading.modules import read_module, read_wrapped_module
from vtpu.reading.recognize import Kind, as_text

NO_ASSIGNMENT = BufferAssignment(buffers={}, allocations=())
NOT_PLACED = "there is no buffer assignment in it: what the compiler would allocate is not known"


def read_hlo_proto(data: bytes | memoryview) -> ProgramMemory:
    """The program of an `HloProto`, with its buffer assignment if it has one.

    Raises:
        WireError: the bytes are not one, or are cut.
    """
    module = read_wrapped_module(data)
    return with_assignment(module, find_assignment(data))


def with_assignment(module: Module, assignment: bytes | memoryview) -> ProgramMemory:
    """A module with the `BufferAssignmentProto` in `assignment`; empty bytes are none.

    Raises:
        WireError: the bytes are no such message, or the module has no instruction.
    """
    if not module.by_id:
        raise wire.WireError("the module has no instructions")
    if not len(assignment):
        return ProgramMemory(module=module, assignment=NO_ASSIGNMENT, problems=(NOT_PLACED,))
    return ProgramMemory(module=module, assignment=read_assignment(assignment, module))


def allocated_bytes(hlo_proto: bytes | memoryview, color: int = 0) -> int | None:
    """Bytes of all allocations of one memory space in an `HloProto`, read without the rest of it.

    None when it has no buffer assignment.

    Raises:
        WireError: the bytes are not an `HloProto`.
    """
    assignment = find_assignment(hlo_proto)
    if not len(assignment):
        return None
    allocations = (v for v in wire.find_all(assignment, 3) if isinstance(v, memoryview))
    sizes = ((wire.find_int(a, 8), wire.find_int(a, 2)) for a in allocations)
    return sum(size for found, size in sizes if found == color)


def read_program(kind: Kind, data: bytes) -> ProgramMemory:
    """The program in a file of a kind: HLO text, or one of the three protos.

    Raises:
        WireError: the bytes are no such message, or are cut.
        HloTextError: the text cannot be parsed.
    """
    if kind is Kind.HLO_TEXT:
        return with_assignment(read_hlo_text(as_text(data)), b"")
    if kind is Kind.HLO_MODULE:
        return with_assignment(read_module(data), b"")
    if kind is Kind.HLO_WITH_CONFIG:
        return with_assignment(read_wrapped_module(data), b"")
    return read_hlo_proto(data)
