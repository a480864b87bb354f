"""The list "Peak buffers" of a GPU's out-of-memory text and of buffer assignments of CPU and GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.program.shapes import ArrayShape
from vtpu.reading.printed.operators import Operator, parse_operator
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size

_BUFFER = re.compile(r"Buffer (\d{1,9}):")
_FIELD = re.compile(r"(Size|Operator|XLA Label|Shape|Entry Parameter Subshape): *([^\n]*)")
_END = re.compile(r"={10,}")
_SIZE = re.compile(SIZE)


@dataclass(frozen=True, slots=True)
class PeakBuffer:
    """A buffer that is alive at the peak. `label`: the opcode; None for an argument."""

    number: int
    size: PrintedSize | None
    operator: Operator | None
    label: str | None
    shape_text: str | None
    shape: ArrayShape | None
    is_parameter: bool
    is_cut: bool


def read_peak_buffers(text: str, start: int) -> tuple[tuple[PeakBuffer, ...], int]:
    """The buffers that are listed from `start` on, and where the list ends."""
    buffers: list[PeakBuffer] = []
    fields: dict[str, str] = {}
    number: int | None = None
    at = end = start
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line = text[at:stop].strip()
        if head := _BUFFER.fullmatch(line):
            if number is not None:
                buffers.append(_buffer(number, fields, is_cut=True))
            number, fields = int(head[1]), {}
        elif number is not None and (field := _FIELD.match(line)):
            fields[field[1]] = field[2].strip()
        elif number is not None and _END.match(line):
            buffers.append(_buffer(number, fields, is_cut=False))
            number = None
        elif line:
            break
        end = stop if line else end
        at = stop + 1
    if number is not None:
        buffers.append(_buffer(number, fields, is_cut=True))
    return tuple(buffers), end


def _buffer(number: int, fields: dict[str, str], *, is_cut: bool) -> PeakBuffer:
    size = _SIZE.match(fields.get("Size", ""))
    subshape = fields.get("Entry Parameter Subshape")
    shape_text = fields.get("Shape", subshape)
    return PeakBuffer(
        number=number,
        size=parse_size(size[0]) if size else None,
        operator=parse_operator(fields["Operator"]) if "Operator" in fields else None,
        label=fields.get("XLA Label"),
        shape_text=shape_text,
        shape=array_shape(shape_text),
        is_parameter=subshape is not None,
        is_cut=is_cut,
    )
