"""Memories of made-up programs for tests: arrays that live throughout, heaps with a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    HeapEvent,
    HeapEventKind,
    HeapTrace,
    LogicalBuffer,
    Placed,
    ProgramMemory,
)
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, parse_shape

ENTRY = 7
TABLE_BYTES = 512
TABLE_IDS = 10**6
WORD = parse_shape("f32[128]{0:T(128)}")


def arguments_of(shapes: Sequence[ArrayShape], extra_bytes: int = 0) -> ProgramMemory:
    """A program with one argument per shape, each `extra_bytes` larger than its shape needs."""
    instructions = [
        Instruction(
            id=n, name=f"p.{n}", opcode="parameter", shape=s, op_name=f"params[{n}]", parameter_number=n
        )
        for n, s in enumerate(shapes)
    ]  # fmt: skip
    sizes = [s.padded_bytes + extra_bytes for s in shapes]
    buffers = [LogicalBuffer(id=n, size=s, color=0, instruction=n) for n, s in enumerate(sizes)]
    allocations = [
        Allocation(
            index=n, size=size, color=0, kind=AllocationKind.ARGUMENT, parameter=n,
            placed=(Placed(n, 0, size),),
        )
        for n, size in enumerate(sizes)
    ]  # fmt: skip
    return _memory(instructions, buffers, allocations, ())


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a heap: `op` is "A" (allocate), "S" (share with `shares`) or "F" (free)."""

    op: str
    buffer: int
    size: int = 0
    shares: int | None = None


def heap_of(
    steps: Sequence[Step], offsets: dict[int, int], *, tables: int = 0, alignment: int = 16384, log: str = ""
) -> ProgramMemory:  # fmt: skip
    """A program whose HBM heap has these events and offsets, behind so many tuple tables.

    The trace names another allocation, as the compiler's do.
    """
    born = [s for s in steps if s.op != "F"]
    base = tables * alignment
    sizes = {s.buffer: s.size for s in born}
    shapes: list[tuple[int, Shape]] = [(b, WORD) for b in sizes]
    shapes += [(TABLE_IDS + n, (WORD, WORD)) for n in range(tables)]
    sizes |= {TABLE_IDS + n: TABLE_BYTES for n in range(tables)}
    places = {b: base + offset for b, offset in offsets.items()}
    places |= {TABLE_IDS + n: n * alignment for n in range(tables)}
    instructions = [
        Instruction(id=b, name=f"op.{b}", opcode="add", shape=shape) for b, shape in shapes
    ]
    buffers = [LogicalBuffer(id=b, size=s, color=0, instruction=b) for b, s in sizes.items()]
    placed = tuple(Placed(b, places[b], sizes[b]) for b in sizes)
    size = max((p.offset + p.size for p in placed), default=0)
    heap = Allocation(index=3, size=size, color=0, kind=AllocationKind.TEMP, placed=placed)
    events = tuple(_event(s) for s in steps)
    return _memory(instructions, buffers, [heap], (HeapTrace(99, events),), log)


def _event(step: Step) -> HeapEvent:
    kinds = {"A": HeapEventKind.ALLOCATE, "S": HeapEventKind.SHARE, "F": HeapEventKind.FREE}
    return HeapEvent(kinds[step.op], step.buffer, "main", f"op.{step.buffer}", step.shares)


def _memory(
    instructions: list[Instruction],
    buffers: list[LogicalBuffer],
    allocations: list[Allocation],
    traces: tuple[HeapTrace, ...],
    log: str = "",
) -> ProgramMemory:
    main = Computation(id=ENTRY, name="main", instructions=tuple(instructions), root=0)
    return ProgramMemory(
        module=Module(name="m", entry=ENTRY, computations={ENTRY: main}),
        assignment=BufferAssignment(
            buffers={b.id: b for b in buffers}, allocations=tuple(allocations), traces=traces
        ),
        log=log,
    )
