"""How many examples and tokens a step takes: the leading dimension of what is sent to it each time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from vtpu.program.element_types import ElementType
from vtpu.reading.shardings import parts_along, read_shardings
from vtpu.reading.wire import WireError
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds, of_kind
from vtpu.recording.recording import ProgramRecord, Recording, ShapeRecord

_INTEGERS = {
    ElementType.S8, ElementType.S16, ElementType.S32, ElementType.S64,
    ElementType.U8, ElementType.U16, ElementType.U32, ElementType.U64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """What one step takes, of all hosts. `tokens`: batch times length of whole numbers in rows; null
    where there are none.
    """

    examples: int
    tokens: int | None


def find_batch(
    recording: Recording, program: ProgramRecord, first_event: int, last_event: int
) -> StepBatch | None:
    """The batch of a step between two events; None when the arrays that are sent do not tell.

    They do when they are arguments of the step's program, and all have one leading dimension.
    """
    sent = _sent(recording, first_event, last_event)
    arrays = [array for shape in sent if (array := _whole(shape, program)) is not None]
    rows = [dims for dims, _ in arrays if len(dims) > 1] or [dims for dims, _ in arrays]
    if not sent or len(arrays) < len(sent) or len({dims[0] for dims in rows}) != 1:
        return None
    tokens = {dims[0] * dims[1] for dims, kind in arrays if len(dims) == 2 and kind in _INTEGERS}
    return StepBatch(examples=rows[0][0], tokens=tokens.pop() if len(tokens) == 1 else None)


def _sent(recording: Recording, first_event: int, last_event: int) -> list[ShapeRecord]:
    """The distinct shapes of arrays that went to the devices' memory; of scalars none."""
    events = of_kind(recording.events[first_event:last_event], EventKind.HOST_TO_DEVICE)
    events = events[memory_kinds(events) == MemoryKind.DEVICE]
    shapes = [recording.shape(number) for number in np.unique(events["detail"]).tolist()]
    return [shape for shape in shapes if shape and shape.dims]


def _whole(
    shape: ShapeRecord, program: ProgramRecord
) -> tuple[tuple[int, ...], ElementType] | None:
    """The array, over all devices, of which `shape` is the part on one, if it is an argument."""
    kind = ElementType(shape.element_type)
    text = f"{kind.xla_name}[{','.join(map(str, shape.dims))}]"
    found = {
        cut
        for parameter, cut in zip(program.parameter_shapes, _cuts(program), strict=False)
        if parameter.partition("{")[0] == text
    }
    if len(found) != 1 or (cut := found.pop()) is None:
        return None
    parts = parts_along(cut, len(shape.dims)) if cut else (1,) * len(shape.dims)
    return (tuple(n * p for n, p in zip(shape.dims, parts, strict=True)), kind) if parts else None


def _cuts(program: ProgramRecord) -> tuple[bytes | None, ...]:
    """The sharding of each parameter; empty: it is whole. None: not known."""
    count = len(program.parameter_shapes)
    if program.num_partitions == 1:
        return (b"",) * count
    try:
        parameters, _ = read_shardings(zlib.decompress(program.hlo))
    except (WireError, zlib.error):
        parameters = ()
    return parameters if len(parameters) == count else (None,) * count
