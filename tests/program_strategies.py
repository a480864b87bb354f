"""Made-up programs for laws: chains of operations in memories of their own."""

from __future__ import annotations

from hypothesis import strategies as st

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.locations import Frame
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
from vtpu.program.shapes import ArrayShape

ENTRY = 7
HEAPS = (0, 1)  # HBM, VMEM

paths = st.sampled_from(
    ["", "jit(f)/jvp(a)/add", "jit(f)/transpose(jvp(b))/mul", "jit(f)/jvp(b)/mul", "jit(f)/add"]
)
shapes = st.builds(
    lambda element_type, dim: ArrayShape(element_type, (dim,), Layout((0,), ((128,),))),
    st.sampled_from([ElementType.F32, ElementType.BF16]),
    st.sampled_from([100, 128, 256]),
)
frames = st.builds(
    lambda file, function, line: (Frame(file, function, line),),
    st.sampled_from(["/p/train.py", "/p/model.py"]),
    st.sampled_from(["f", "g"]),
    st.integers(1, 6),
)


@st.composite
def programs(draw: st.DrawFn) -> ProgramMemory:
    """A chain of operations, each with a buffer that a later one uses last, in heaps without reuse."""
    count = draw(st.integers(1, 12))
    last_uses = [draw(st.integers(i, count - 1)) for i in range(count)]
    stacks = ((), *draw(st.lists(frames, max_size=4)))
    operations = tuple(
        Instruction(
            id=i,
            name=f"op.{i}",
            opcode=draw(st.sampled_from(["add", "multiply"])),
            shape=draw(shapes),
            operands=tuple(j for j in range(i) if last_uses[j] == i),
            op_name=draw(paths),
            stack=draw(st.integers(0, len(stacks) - 1)),
        )
        for i in range(count)
    )
    arguments = _arguments(draw(st.lists(st.sampled_from(["x", "y", "p['w']"]), max_size=3)))
    main = Computation(
        id=ENTRY, name="main", instructions=(*arguments, *operations), root=count - 1
    )
    module = Module(name="m", entry=ENTRY, computations={ENTRY: main}, stacks=stacks)
    sizes = [draw(st.integers(1, 40)) * 512 for _ in range(count)]
    colors = [draw(st.sampled_from(HEAPS)) for _ in range(count)]
    return ProgramMemory(
        module=module, assignment=_assignment(sizes, colors, last_uses, len(arguments))
    )


def _arguments(names: list[str]) -> tuple[Instruction, ...]:
    shape = ArrayShape(ElementType.F32, (128,), Layout((0,), ((128,),)))
    return tuple(
        Instruction(
            id=100 + n, name=f"p.{n}", opcode="parameter", shape=shape, op_name=name, parameter_number=n
        )
        for n, name in enumerate(names)
    )  # fmt: skip


def _assignment(
    sizes: list[int], colors: list[int], last_uses: list[int], num_arguments: int
) -> BufferAssignment:
    buffers = {
        i: LogicalBuffer(id=i, size=size, color=colors[i], instruction=i)
        for i, size in enumerate(sizes)
    }
    arguments = [_argument(n) for n in range(num_arguments)]
    for number in range(num_arguments):
        name = 100 + number
        buffers[name] = LogicalBuffer(id=name, size=512, color=0, instruction=name)
    heaps = [_heap(color, buffers) for color in HEAPS if color in colors]
    trace = HeapTrace(99, _events(last_uses))
    return BufferAssignment(buffers=buffers, allocations=(*arguments, *heaps), traces=(trace,))


def _argument(number: int) -> Allocation:
    return Allocation(
        index=10 + number, size=512, color=0, kind=AllocationKind.ARGUMENT, parameter=number,
        placed=(Placed(100 + number, 0, 512),),
    )  # fmt: skip


def _heap(color: int, buffers: dict[int, LogicalBuffer]) -> Allocation:
    own = [b for b in buffers.values() if b.color == color and b.id < 100]
    offsets = [sum(b.size for b in own[:n]) for n in range(len(own))]
    placed = tuple(Placed(b.id, offset, b.size) for b, offset in zip(own, offsets, strict=True))
    size = sum(b.size for b in own)
    return Allocation(
        index=color, size=size, color=color, kind=AllocationKind.TEMP, placed=placed
    )  # fmt: skip


def _events(last_uses: list[int]) -> tuple[HeapEvent, ...]:
    events: list[HeapEvent] = []
    for i in range(len(last_uses)):
        events.append(HeapEvent(HeapEventKind.ALLOCATE, i, "main", f"op.{i}"))
        freed = [j for j, last in enumerate(last_uses) if last == i]
        events += [HeapEvent(HeapEventKind.FREE, j, "main", f"op.{j}") for j in freed]
    return tuple(events)
