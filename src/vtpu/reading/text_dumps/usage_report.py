"""The memory usage report: per memory space its slots, largest first, with what shares each slot.

XLA writes it as `*-memory-usage-report.txt` and libtpu into its log when a program does not fit
(openxla/xla `xla/service/buffer_assignment.cc`, `MemoryUsageReport`). Its names of memory spaces
above colour 2 are not the TPU's: colour 5 is host memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.program.shapes import ArrayShape
from vtpu.reading import wire
from vtpu.reading.printed.shapes import array_shapes
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size

_SPACE = re.compile(r"Memory Space: (?P<name>[^\n]*?) ?\(color=(?P<color>\d{1,9})\)[ \t]*")
_TOTAL = re.compile(rf"Total bytes: (?P<bytes>\d{{1,20}}) \({SIZE}\)[ \t]*")
_HEAD = re.compile(r"cumulative_size; +size; +offset; used_by_n_values; shapes_list[ \t]*|-{20,}")
_SLOT = re.compile(
    rf"(?P<sum>{SIZE})\( *(?P<percent>\d{{1,5}}|-?nan|inf)%\); +(?P<size>{SIZE}); +"
    r"(?P<offset>\d{1,20}); +(?P<values>\d{1,9}); (?P<shapes>[^\n]*)"
)
# The proto: spaces; of a space its total, colour and allocations; of an allocation the rest.
_PROTO_SPACE = 1
_PROTO_TOTAL, _PROTO_COLOR, _PROTO_ALLOCATION = 1, 2, 3
_PROTO_NUMBER, _PROTO_SIZE, _PROTO_VALUE, _PROTO_TABLE = 1, 2, 5, 6
_COUNT = re.compile("(?:(\\d{1,9})\u00d7)?")


@dataclass(frozen=True, slots=True)
class SharedShape:
    """A shape of values in a slot and how many have it. Layouts are not printed."""

    count: int
    text: str

    @property
    def arrays(self) -> tuple[ArrayShape, ...]:
        """The array, or the arrays of a tuple; none where the text is no shape."""
        return array_shapes(self.text)


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in an allocation, as large as the largest value in it."""

    size: PrintedSize
    offset: int
    values: int
    shapes: tuple[SharedShape, ...]


@dataclass(frozen=True, slots=True)
class AllocationUsage:
    """An allocation's slots, largest first. The text prints neither number nor exact size."""

    slots: tuple[Slot, ...]
    number: int | None = None
    size_bytes: int | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """A memory space with its allocations, largest first. The proto says no name."""

    name: str
    color: int
    total_bytes: int | None
    allocations: tuple[AllocationUsage, ...]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """A report, and the numbers of its lines, from 1, that were not understood."""

    spaces: tuple[SpaceUsage, ...]
    unknown: tuple[tuple[int, str], ...] = ()
    problems: tuple[str, ...] = ()


def read_usage_report(text: str) -> UsageReport:
    """A report in a file of its own. Never raises: what is no report is in `unknown`."""
    spaces, _ = read_spaces(text, 0, stop_at_unknown=False)
    unknown = tuple(
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not _is_known(line.strip())
    )
    problems: list[str] = [] if spaces else ["there is no memory usage report in this text"]
    problems += [
        f"the total of memory space {space.name} is missing: the text was cut"
        for space in spaces
        if space.total_bytes is None
    ]
    return UsageReport(spaces, unknown, tuple(problems))


def read_usage_report_proto(data: bytes) -> UsageReport:
    """The same from `*-memory-usage-report.pb`, with exact sizes. Never raises.

    The fields are as jaxlib 0.10.2 and libtpu 0.0.42 write them; their proto is not published.
    """
    spaces: list[SpaceUsage] = []
    problems: list[str] = []
    for number, value in wire.readable_fields(data, problems):
        if number == _PROTO_SPACE and isinstance(value, memoryview):
            spaces.append(_proto_space(value, problems))
    if not spaces:
        problems.append("there is no memory usage report in these bytes")
    return UsageReport(tuple(spaces), (), tuple(problems))


def _proto_space(view: memoryview, problems: list[str]) -> SpaceUsage:
    total, color = None, 0
    allocations: list[AllocationUsage] = []
    for number, value in wire.readable_fields(view, problems):
        if number == _PROTO_TOTAL and isinstance(value, int):
            total = value
        elif number == _PROTO_COLOR and isinstance(value, int):
            color = value
        elif number == _PROTO_ALLOCATION and isinstance(value, memoryview):
            allocations.append(_proto_allocation(value, problems))
    return SpaceUsage("", color, total, tuple(allocations))


def _proto_allocation(view: memoryview, problems: list[str]) -> AllocationUsage:
    numbers: dict[int, int] = {}
    texts: dict[int, list[str]] = {}
    for number, value in wire.readable_fields(view, problems):
        if isinstance(value, int):
            numbers[number] = value
        else:
            texts.setdefault(number, []).append(bytes(value).decode(errors="replace"))
    slots = (match for text in texts.get(_PROTO_TABLE, []) for match in _SLOT.finditer(text))
    return AllocationUsage(
        slots=tuple(_slot(match) for match in slots),
        number=numbers.get(_PROTO_NUMBER, 0),
        size_bytes=numbers.get(_PROTO_SIZE, 0),
        values=tuple(texts.get(_PROTO_VALUE, [])),
    )


def _is_known(line: str) -> bool:
    return any(p.fullmatch(line) for p in (_SPACE, _TOTAL, _HEAD, _SLOT))


def read_spaces(
    text: str, start: int, *, stop_at_unknown: bool = True
) -> tuple[tuple[SpaceUsage, ...], int]:
    """The memory spaces from `start` on, and where what was understood of them ends."""
    drafts: list[_Draft] = []
    at = end = start
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line = text[at:stop].strip()
        if line and not _take(drafts, line):
            if stop_at_unknown:
                break
        elif line:
            end = stop
        at = stop + 1
    return tuple(draft.space() for draft in drafts), end


class _Draft:
    """A memory space while its lines come."""

    def __init__(self, name: str, color: int) -> None:
        self._name, self._color = name, color
        self.total: int | None = None
        self.allocations: list[list[Slot]] = []

    def space(self) -> SpaceUsage:
        allocations = tuple(AllocationUsage(tuple(slots)) for slots in self.allocations)
        return SpaceUsage(self._name, self._color, self.total, allocations)


def _take(drafts: list[_Draft], line: str) -> bool:
    """Adds what a line says; False if it says nothing that is known here."""
    if match := _SPACE.fullmatch(line):
        drafts.append(_Draft(match["name"], int(match["color"])))
    elif not drafts:
        return False
    elif match := _TOTAL.fullmatch(line):
        drafts[-1].total = int(match["bytes"])
    elif _HEAD.fullmatch(line):
        if not line.startswith("-"):
            drafts[-1].allocations.append([])
    elif (match := _SLOT.fullmatch(line)) and drafts[-1].allocations:
        drafts[-1].allocations[-1].append(_slot(match))
    else:
        return False
    return True


def _slot(match: re.Match[str]) -> Slot:
    shapes = tuple(_shared_shape(text) for text in split_shapes(match["shapes"]))
    size = parse_size(match["size"])
    return Slot(size, int(match["offset"]), int(match["values"]), shapes)


def _shared_shape(text: str) -> SharedShape:
    count = _COUNT.match(text)
    end = count.end() if count else 0
    number = int(count[1]) if count and count[1] else 1
    return SharedShape(number, text[end:])


def split_shapes(text: str) -> list[str]:
    """The shapes of a list, split at the commas outside of brackets."""
    parts: list[str] = []
    depth = start = 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in [*parts, text[start:].strip()] if part]
