"""Arrays that lay whole on one device before they were spread over several.

JAX spreads an array that is on one device by a program there, `_multi_slice`, which cuts it into all
pieces, and copies these to the other devices (`jax/_src/array.py`, 0.10 and 0.12).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.run.arrays import Arrays, arrays_of, executions_on
from vtpu.analysis.run.memory import local_devices, shape_text
from vtpu.program.shapes import ArrayShape, ShapeError, parse_shape
from vtpu.recording.recording import ProgramRecord, Recording

_SPREADS = "jit__multi_slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """An array of `bytes` on `device` that was cut there into `pieces`, at a stack of the user's.

    `made` and `freed` are the rows where it came and went. `has_failed`: there was no room for the pieces,
    and the program that cuts did not compile.
    """

    device: int
    stack: int
    shape: str
    bytes: int
    pieces: int
    made: int
    freed: int
    has_failed: bool


def most_at_once(scattered: Sequence[Scattered]) -> int:
    """The most bytes of such arrays that were there whole at one time."""
    return max(
        sum(s.bytes for s in scattered if s.made <= moment.made < s.freed) for moment in scattered
    )


def find_scattered(recording: Recording) -> tuple[Scattered, ...]:
    """What was spread so, in order of the programs that did it."""
    spreading = [p for p in recording.programs if p.name == _SPREADS]
    if not spreading:
        return ()
    arrays = {device: arrays_of(recording, device) for device in local_devices(recording)}
    found = [
        _failed(recording, p, arrays) if p.error else _ran(recording, p, arrays) for p in spreading
    ]
    return tuple(scattered for each in found for scattered in each)


def _ran(
    recording: Recording, program: ProgramRecord, arrays: dict[int, Arrays]
) -> Iterator[Scattered]:
    """One for each execution."""
    whole = _array(program.parameter_shapes[0]) if len(program.parameter_shapes) == 1 else None
    for device in program.device_ids:
        if whole is None or device not in arrays:
            continue
        runs = executions_on(recording, device)
        for row in runs[recording.events["program"][runs] == program.number].tolist():
            stack = int(recording.events["stack"][row])
            if place := _place(recording, arrays[device], _text(whole), row):
                yield _scattered(device, stack, whole, program.num_outputs, place)


def _failed(
    recording: Recording, program: ProgramRecord, arrays: dict[int, Arrays]
) -> Iterator[Scattered]:
    """The one that did not compile: the device is the one where such an array is."""
    memory = memory_of(program, recording.run)
    parameters = memory.module.parameters() if memory else ()
    whole = parameters[0].shape if len(parameters) == 1 else None
    result = memory.module.result() if memory else None
    if not isinstance(whole, ArrayShape) or result is None:
        return
    pieces = len(result.shape) if isinstance(result.shape, tuple) else 1
    for device, own in arrays.items():
        if place := _place(recording, own, _text(whole), len(recording.events)):
            found = _scattered(device, program.stack, whole, pieces, place)
            yield replace(found, has_failed=True)
            return


def _scattered(
    device: int, stack: int, whole: ArrayShape, pieces: int, place: tuple[int, int]
) -> Scattered:
    return Scattered(
        device=device,
        stack=stack,
        shape=_text(whole),
        bytes=whole.padded_bytes,
        pieces=pieces,
        made=place[0],
        freed=place[1],
        has_failed=False,
    )


def _place(recording: Recording, arrays: Arrays, shape: str, row: int) -> tuple[int, int] | None:
    """Where the last array of a shape came and went that is there at a row."""
    is_there = (arrays.made < row) & (arrays.freed >= row)
    there = arrays.take(is_there)
    numbers = there.column("detail")
    alike = [n for n in np.unique(numbers).tolist() if shape_text(recording, n) == shape]
    found = np.flatnonzero(np.isin(numbers, alike))
    return (int(there.made[found[-1]]), int(there.freed[found[-1]])) if len(found) else None


def _array(text: str) -> ArrayShape | None:
    try:
        found = parse_shape(text)
    except ShapeError:
        return None
    return found if isinstance(found, ArrayShape) else None


def _text(shape: ArrayShape) -> str:
    return f"{shape.element_type.xla_name}[{','.join(map(str, shape.dims))}]"
