"""The text of a buffer assignment: allocations, the values in them with offsets; all backends.

`*-buffer-assignment.txt` has the allocations, `*-buffer-assignment-values.txt` the values with their
uses; older releases wrote both into one file, then "Peak buffers" (openxla/xla
`xla/service/buffer_assignment.cc`, `BufferAllocation::ToString`, `BufferAssignment::ToString`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vtpu.program.shapes import ArrayShape
from vtpu.reading.printed.shapes import array_shapes
from vtpu.reading.text_dumps.peak_buffers import PeakBuffer, read_peak_buffers

_ALLOCATION = re.compile(
    r"\s*allocation (?P<number>\d{1,18}): (?:0x[0-9a-f]+, )?size (?P<size>\d{1,20})(?P<rest>.*?):?\s*"
)
_PARAMETER = re.compile(
    r", parameter (?P<number>\d{1,18})(?:, shape \|(?P<shape>[^|]*)\|)? at ShapeIndex \{(?P<index>[\d, ]*)\}"
)
_OUTPUT = re.compile(r", output shape is \|(?P<shape>[^|]*)\|")
_COLOR = re.compile(r", color (?P<color>\d{1,9})")
_VALUE = re.compile(
    r"\s*(?:value: )?<(?P<id>\d{1,18}) (?P<name>[^\s{}]+)(?P<index>\{[\d,]*\})?(?P<phi> \(phi\))?"
    r"(?: @(?P<color>\d{1,9}))?>"
    r"(?: \(size=(?P<size>\d{1,20}),offset=(?P<offset>\d{1,20})\)"
    r"| \[(?P<old_offset>\d{1,20}),(?P<old_size>\d{1,20})\])?(?:: (?P<shape>.*))?"
)
_TOTAL = re.compile(r"Total bytes used: (?P<bytes>\d{1,20})(?: \([^()]*\))?\s*")
_FLAGS = ("constant", "thread-local", "maybe-live-out", "preallocated-temp")
_USED = " positions:", " uses:"


@dataclass(frozen=True, slots=True)
class AssignedValue:
    """A value in an allocation. `index`: `{0}` of a tuple. Shapes have layouts."""

    id: int
    name: str
    index: str
    is_phi: bool
    color: int
    size: int | None
    offset: int | None
    shape_text: str | None

    @property
    def arrays(self) -> tuple[ArrayShape, ...]:
        """The array, or the arrays of a tuple; none where the text is no shape."""
        return array_shapes(self.shape_text) if self.shape_text else ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation. Colour is the memory space: 0 HBM, 1 VMEM, 2 SMEM, 5 host on a TPU."""

    number: int
    size: int
    color: int
    parameter: int | None
    parameter_index: tuple[int, ...]
    parameter_shape: str | None
    output_shape: str | None
    is_constant: bool
    is_thread_local: bool
    maybe_live_out: bool
    is_preallocated_temp: bool
    values: tuple[AssignedValue, ...]


@dataclass(frozen=True, slots=True)
class UsedValue:
    """A value of the list "Used values", where it is and which instructions read it."""

    value: AssignedValue
    positions: tuple[str, ...]
    uses: tuple[str, ...]
    instruction: str | None


@dataclass(frozen=True, slots=True)
class BufferAssignmentText:
    """What the text of a buffer assignment says. `unknown`: lines from 1 that it did not explain."""

    allocations: tuple[Allocation, ...]
    total_bytes: int | None
    used_values: tuple[UsedValue, ...]
    peak_buffers: tuple[PeakBuffer, ...]
    unknown: tuple[tuple[int, str], ...]
    problems: tuple[str, ...]


def read_buffer_assignment_text(text: str) -> BufferAssignmentText:
    """The buffer assignment that is printed in `text`. Never raises."""
    reader = _Reader()
    peak_at = text.find("Peak buffers:")
    peaks: tuple[PeakBuffer, ...] = ()
    head, tail, skipped = text, "", 0
    if peak_at >= 0:
        peaks, end = read_peak_buffers(text, peak_at + len("Peak buffers:"))
        head, tail, skipped = text[:peak_at], text[end:], text.count("\n", 0, end)
    for number, line in enumerate(head.splitlines(), start=1):
        reader.take(number, line)
    for number, line in enumerate(tail.splitlines(), start=skipped + 1):
        reader.take(number, line)
    return reader.result(peaks)


@dataclass(slots=True)
class _UsedDraft:
    value: AssignedValue
    positions: list[str] = field(default_factory=list[str])
    uses: list[str] = field(default_factory=list[str])
    instruction: str | None = None
    section: list[str] | None = None


class _Reader:
    """Takes line after line."""

    def __init__(self) -> None:
        self._allocations: list[tuple[re.Match[str], list[AssignedValue]]] = []
        self._used: list[_UsedDraft] = []
        self._is_in_used = False
        self._total: int | None = None
        self._unknown: list[tuple[int, str]] = []

    def take(self, number: int, line: str) -> None:
        """Adds what a line says, or keeps it as unknown."""
        if line.strip() and not self._take(line):
            self._unknown.append((number, line))

    def _take(self, line: str) -> bool:
        if line.startswith(("BufferAssignment:", "Used values:")):
            self._is_in_used = line.startswith("Used")
            return True
        if match := _TOTAL.fullmatch(line):
            self._total = int(match["bytes"])
            return True
        if "allocation " in line and (match := _ALLOCATION.fullmatch(line)):
            self._allocations.append((match, []))
            return True
        if self._is_in_used:
            return self._take_used(line)
        if self._allocations and (match := _VALUE.fullmatch(line)):
            self._allocations[-1][1].append(_value(match))
            return True
        return False

    def _take_used(self, line: str) -> bool:
        if line.startswith("<") and (match := _VALUE.fullmatch(line)):
            self._used.append(_UsedDraft(_value(match)))
            return True
        if not self._used:
            return False
        draft = self._used[-1]
        if line in _USED:
            draft.section = draft.positions if line == _USED[0] else draft.uses
        elif line.startswith(" from instruction: "):
            draft.instruction = line.removeprefix(" from instruction: ")
            draft.section = None
        elif line.startswith("  ") and draft.section is not None:
            if line.strip() != "(none)":
                draft.section.append(line.strip())
        else:
            return False
        return True

    def result(self, peaks: tuple[PeakBuffer, ...]) -> BufferAssignmentText:
        """What was read."""
        allocations = tuple(_allocation(match, values) for match, values in self._allocations)
        used = tuple(
            UsedValue(d.value, tuple(d.positions), tuple(d.uses), d.instruction) for d in self._used
        )
        problems = tuple(_problems(allocations, used))
        return BufferAssignmentText(
            allocations, self._total, used, peaks, tuple(self._unknown), problems
        )


def _value(match: re.Match[str]) -> AssignedValue:
    size, offset = match["size"] or match["old_size"], match["offset"] or match["old_offset"]
    return AssignedValue(
        id=int(match["id"]),
        name=match["name"],
        index=match["index"] or "",
        is_phi=match["phi"] is not None,
        color=int(match["color"] or 0),
        size=int(size) if size else None,
        offset=int(offset) if offset else None,
        shape_text=match["shape"],
    )


def _allocation(match: re.Match[str], values: list[AssignedValue]) -> Allocation:
    rest = match["rest"]
    parameter, output, color = _PARAMETER.search(rest), _OUTPUT.search(rest), _COLOR.search(rest)
    plain = _OUTPUT.sub("", _PARAMETER.sub("", rest))
    is_constant, is_local, is_live_out, is_temp = (f", {flag}" in plain for flag in _FLAGS)
    index = parameter["index"].replace(" ", "") if parameter else ""
    return Allocation(
        number=int(match["number"]),
        size=int(match["size"]),
        color=int(color["color"]) if color else 0,
        parameter=int(parameter["number"]) if parameter else None,
        parameter_index=tuple(int(i[:18]) for i in index.split(",") if i),
        parameter_shape=parameter["shape"] if parameter else None,
        output_shape=output["shape"] if output else None,
        is_constant=is_constant,
        is_thread_local=is_local,
        maybe_live_out=is_live_out,
        is_preallocated_temp=is_temp,
        values=tuple(values),
    )


def _problems(allocations: tuple[Allocation, ...], used: tuple[UsedValue, ...]) -> list[str]:
    if not allocations and not used:
        return ["there is no buffer assignment in this text"]
    problems: list[str] = []
    numbers = {allocation.number for allocation in allocations}
    missing = [n for n in range(min(len(numbers), 1_000_000)) if n not in numbers]
    if missing:
        problems.append(f"allocation {missing[0]} is missing, in all {len(missing)}")
    for allocation in allocations:
        for value in allocation.values:
            if value.size is None or value.offset is None:
                problems.append(f"a value of allocation {allocation.number} is cut: {value.name}")
            elif value.offset + value.size > allocation.size:
                problems.append(
                    f"value {value.name} ends behind its allocation {allocation.number}"
                )
    return problems
