"""`*-live-range.txt`: the schedule, when each buffer is alive, and what is alive at the peak.

Sizes here are unpadded (openxla/xla `xla/hlo/utils/hlo_live_range.cc`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_HEAD = re.compile(r"HloLiveRange \(max (?P<end>\d{1,18})\):\s*")
_INSTRUCTION = re.compile(r"\s*(?P<time>\d{1,18}):(?P<name>\S+)\s*")
_RANGE = re.compile(
    r"\s*(?P<name>\S+?)(?P<index>\{[\d,]*\})(?: \(phi\))?:(?P<start>-?\d{1,18})-(?P<end>-?\d{1,18})\s*"
)
_PEAK_HEAD = re.compile(r"\s*Live ranges at (?P<time>-?\d{1,18}) \(peak\):\s*")
_PEAK = re.compile(
    r"\s*(?P<name>\S+?)(?P<index>\{[\d,]*\})(?: \(phi\))?: (?P<size>\d{1,20}) bytes"
    r" \(cumulative: (?P<sum>\d{1,20}) bytes\)\s*"
)
_TREE_HEAD = re.compile(r"\s*Stack trace breakdown for peak usage: (?P<bytes>[\d ]{1,30}) bytes\s*")
_TREE = re.compile(
    r"(?P<lead>[\s│├└─]*)(?P<name>.+) \((?P<percent>[\d.]{1,9})%, total: (?P<total>[\d ]{1,30}) bytes,"
    r" current: (?P<current>[\d ]{1,30}) bytes, remaining: [\d ]{1,30} bytes\)\s*"
)
_INDENT = 4


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A buffer alive from one moment of the schedule to another, both included."""

    name: str
    index: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PeakValue:
    """A buffer that is alive at the peak, with its unpadded bytes."""

    name: str
    index: str
    logical_bytes: int


@dataclass(frozen=True, slots=True)
class PeakPlace:
    """A place of the program (argument, operation, loop) with the unpadded bytes that are its own."""

    depth: int
    name: str
    total_bytes: int
    own_bytes: int


@dataclass(frozen=True, slots=True)
class LiveRangeText:
    """What the text says. `schedule`: names in order of time."""

    end: int | None
    schedule: tuple[str, ...]
    ranges: tuple[LiveRange, ...]
    peak_at: int | None
    peak: tuple[PeakValue, ...]
    places: tuple[PeakPlace, ...]
    unknown: tuple[tuple[int, str], ...]
    problems: tuple[str, ...]


class _Reader:
    def __init__(self) -> None:
        self.end: int | None = None
        self.schedule: list[str] = []
        self.ranges: list[LiveRange] = []
        self.peak_at: int | None = None
        self.peak: list[PeakValue] = []
        self.places: list[PeakPlace] = []
        self.unknown: list[tuple[int, str]] = []
        self._section: Callable[[str], bool] = self._nothing

    def take(self, number: int, line: str) -> None:
        """Adds what a line says, or keeps it as unknown."""
        if line.strip() and not self._take_head(line) and not self._section(line):
            self.unknown.append((number, line))

    def _take_head(self, line: str) -> bool:
        if match := _HEAD.fullmatch(line):
            self.end = int(match["end"])
        elif line.strip() == "InstructionSequence:":
            self._section = self._instruction
        elif line.strip() == "BufferLiveRange:":
            self._section = self._range
        elif match := _PEAK_HEAD.fullmatch(line):
            self.peak_at, self._section = int(match["time"]), self._peak_value
        elif _TREE_HEAD.fullmatch(line):
            self._section = self._place
        else:
            return False
        return True

    def _nothing(self, line: str) -> bool:
        del line
        return False

    def _instruction(self, line: str) -> bool:
        match = _INSTRUCTION.fullmatch(line)
        if match:
            self.schedule.append(match["name"])
        return match is not None

    def _range(self, line: str) -> bool:
        match = _RANGE.fullmatch(line)
        if match:
            times = int(match["start"]), int(match["end"])
            self.ranges.append(LiveRange(match["name"], match["index"], *times))
        return match is not None

    def _peak_value(self, line: str) -> bool:
        match = _PEAK.fullmatch(line)
        if match:
            self.peak.append(PeakValue(match["name"], match["index"], int(match["size"])))
        return match is not None

    def _place(self, line: str) -> bool:
        match = _TREE.fullmatch(line)
        if match:
            total, own = (int(match[key].replace(" ", "") or 0) for key in ("total", "current"))
            depth = max(0, len(match["lead"].rstrip("\n")) // _INDENT - 1)
            self.places.append(PeakPlace(depth, match["name"], total, own))
        return match is not None


def read_live_range(text: str) -> LiveRangeText:
    """The live ranges that are printed in `text`. Never raises."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), start=1):
        reader.take(number, line)
    problems: list[str] = []
    if reader.end is None:
        problems.append('the first line ("HloLiveRange") is missing')
    elif len(reader.schedule) < reader.end:
        known = len(reader.schedule)
        problems.append(f"the schedule has {reader.end} instructions, but {known} are listed: cut")
    if not reader.peak:
        problems.append("what is alive at the peak is not listed")
    return LiveRangeText(
        reader.end,
        tuple(reader.schedule),
        tuple(reader.ranges),
        reader.peak_at,
        tuple(reader.peak),
        tuple(reader.places),
        tuple(reader.unknown),
        tuple(problems),
    )
