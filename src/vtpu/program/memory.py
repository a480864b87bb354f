"""What the compiler placed where: buffers, allocations, the heap traces that made their offsets.

A *buffer* is a value of the program in one memory space (XLA's logical buffer). An *allocation* is a
block of memory for the whole run of the program: one parameter, one constant, one result, or the heap
that all temporaries of a memory space share. Each buffer has an offset in its allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from vtpu.program.modules import Module


class MemorySpace(IntEnum):
    """Memories that buffers are in. Values are libtpu's colours, `S(n)` in a layout.

    Which is which was found by what libtpu 0.0.42 and 0.0.50 place there and what their logs call
    it: semaphores of asynchronous copies are in 2 (`sflag`), the common memory of v4 is 3, scalars of
    loops are in 6.
    """

    HBM = 0
    VMEM = 1
    SFLAG = 2
    CMEM = 3
    HOST = 5
    SMEM = 6


def space_name(color: int) -> str:
    """The name of a memory space, `color 7` for one that is not known."""
    try:
        return MemorySpace(color).name if color != MemorySpace.HOST else "host memory"
    except ValueError:
        return f"color {color}"


class AllocationKind(StrEnum):
    """What an allocation is for."""

    ARGUMENT = "argument"
    OUTPUT = "output"
    TEMP = "temp"
    CONSTANT = "constant"
    LOCAL = "local"  # inside one fusion or reducer; no memory of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalBuffer:
    """A value: `size` in bytes as placed, padding included; the instruction that defines it."""

    id: int
    size: int
    color: int
    instruction: int
    index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A buffer in an allocation: bytes from the allocation's start, bytes taken."""

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A block of memory. `parameter` is the number of the entry parameter that it holds.

    An argument whose memory an output reuses is live out and of kind ARGUMENT.
    """

    index: int
    size: int
    color: int
    kind: AllocationKind
    parameter: int | None = None
    parameter_index: tuple[int, ...] = ()
    is_live_out: bool = False
    is_tuple: bool = False
    placed: tuple[Placed, ...] = ()


class HeapEventKind(IntEnum):
    """What a heap trace says. Values are those of `HeapSimulatorTrace.Event.Kind`."""

    ALLOCATE = 0
    FREE = 1
    SHARE = 2  # the buffer gets the memory of another one, which stays alive as long as it


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """One step of a heap trace, at an instruction of a computation (both by name)."""

    kind: HeapEventKind
    buffer: int
    computation: str
    instruction: str
    shares: int | None = None


@dataclass(frozen=True, slots=True)
class HeapTrace:
    """How the offsets in an allocation came about."""

    allocation: int
    events: tuple[HeapEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAssignment:
    """All buffers and allocations of a program."""

    buffers: Mapping[int, LogicalBuffer]
    allocations: tuple[Allocation, ...]
    traces: tuple[HeapTrace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """The compiler's own figures (`memory_analysis()`), bytes per device; None where it gave none.

    `heap_bytes` is the HBM that the buffer assignment reserves for temporaries, which differs from
    `temp_bytes` in releases that count fragmentation twice.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    generated_code_bytes: int
    host_argument_bytes: int = 0
    host_output_bytes: int = 0
    host_alias_bytes: int = 0
    host_temp_bytes: int = 0
    heap_bytes: int | None = None
    peak_memory_field_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMemory:
    """A compiled program's memory, as the compiler's artifacts tell it.

    `limit_bytes`: HBM that the compiler grants a program; `log`: what the compiler logged meanwhile;
    `error`: its message when the program did not compile. What an artifact did not hold is None.
    """

    module: Module
    assignment: BufferAssignment
    stats: MemoryStats | None = None
    limit_bytes: int | None = None
    chip: str | None = None
    log: str = ""
    error: str | None = None
    problems: tuple[str, ...] = ()
