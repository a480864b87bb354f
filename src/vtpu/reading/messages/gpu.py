"""Messages of GPUs, for whoever asks about the wrong device: T15, T16, T17."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.reading.messages.cleaning import CleanText
from vtpu.reading.messages.patterns import (
    INT,
    Found,
    Message,
    Pattern,
    Where,
    int_of,
    locate,
    pattern,
    size_of,
    spaced,
)
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size
from vtpu.reading.text_dumps.peak_buffers import PeakBuffer, read_peak_buffers


@dataclass(frozen=True, slots=True)
class Stat:
    """A line of the buffer assignment's summary: `preallocated temp allocation: 1.97GiB`."""

    name: str
    size: PrintedSize
    percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOutOfMemory(Message):
    """T15. A program's memory was not there. A small `total`: the GPU was full before."""

    request: PrintedSize | None
    stats: tuple[Stat, ...]
    buffers: tuple[PeakBuffer, ...]

    def stat(self, name: str) -> PrintedSize | None:
        """The size in the line called `name`: `total allocation`."""
        return next((stat.size for stat in self.stats if stat.name == name), None)

    @property
    def total(self) -> PrintedSize | None:
        """All that the program allocates."""
        return self.stat("total allocation")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExhausted(Message):
    """T16. The pool of a GPU tries again after this, so it is not always fatal."""

    allocator: str | None
    request: PrintedSize | None
    operation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLibraryFailed(Message):
    """T17. A library of NVIDIA's found no memory: another framework or the pool itself has it."""

    what: str


_START = re.compile(
    spaced(
        rf"Out of memory while trying to allocate(?:[ ](?:(?P<bytes>{INT}) bytes|(?P<size>{SIZE})))?\.?"
        r"|BufferAssignment OOM Debugging\.?|BufferAssignment stats:|Peak buffers:"
    )
)
_GOES_ON = re.compile(r"\s*(?:BufferAssignment OOM Debugging\.?|BufferAssignment stats:)")
_STAT = re.compile(
    rf"\s*(?P<name>[a-z][a-z_ ]*(?:allocation|fragmentation)): +(?P<size>-?{SIZE})"
    r"(?: \((?P<percent>-?[\d.]{1,9})%\))?"
)
_PEAK = re.compile(r"\s*Peak buffers:")


def find_gpu_reports(cleaned: CleanText, text: str) -> list[Found]:
    """Every T15 in `text`, with the tables that follow it."""
    found: list[Found] = []
    end = 0
    for match in _START.finditer(text):
        if match.start() >= end:
            report, end = _report(cleaned, text, match)
            found.append(Found(match.start(), end, report, tuple(_problems(report))))
    return found


def _report(cleaned: CleanText, text: str, match: re.Match[str]) -> tuple[GpuOutOfMemory, int]:
    end = match.start() if match[0].startswith("Peak") else match.end()
    while ahead := _GOES_ON.match(text, end):
        end = ahead.end()
    stats: list[Stat] = []
    while ahead := _STAT.match(text, end):
        stats.append(_stat(ahead))
        end = ahead.end()
    buffers: tuple[PeakBuffer, ...] = ()
    if peak := _PEAK.match(text, end):
        buffers, end = read_peak_buffers(text, peak.end())
        end = max(end, peak.end())
    exact = int_of(match, "bytes")
    has_request = match[0].startswith("Out")
    is_cut = (buffers[-1].is_cut if buffers else False) or (
        has_request and match["bytes"] is None and match["size"] is None
    )
    where = locate(cleaned, "T15", match.start(), end, is_cut=is_cut)
    request = PrintedSize(exact) if exact is not None else size_of(match, "size")
    return GpuOutOfMemory(where=where, request=request, stats=tuple(stats), buffers=buffers), end


def _stat(match: re.Match[str]) -> Stat:
    percent = match["percent"]
    is_number = percent is not None and re.fullmatch(r"-?\d{1,6}(\.\d+)?", percent)
    size = parse_size(match["size"].removeprefix("-"))
    signed = PrintedSize(-size.bytes, size.rounding) if match["size"].startswith("-") else size
    return Stat(match["name"], signed, float(percent) if percent and is_number else None)


def _problems(report: GpuOutOfMemory) -> Iterator[str]:
    line = report.where.lines
    if report.request is None:
        yield f"line {line[0]}: how much was requested is missing"
    expected = 1
    for buffer in report.buffers:
        if buffer.number > expected:
            yield f"lines {line[0]} to {line[1]}: buffers {expected} to {buffer.number - 1} are missing"
        expected = buffer.number + 1
    if report.where.is_cut:
        yield f"line {line[1]}: the message ends early"


def _pool(match: re.Match[str], where: Where) -> PoolExhausted:
    exact = int_of(match, "bytes")
    request = PrintedSize(exact) if exact is not None else size_of(match, "request")
    operation = match["operation"]
    return PoolExhausted(
        where=where, allocator=match["allocator"], request=request, operation=operation
    )


def _library(match: re.Match[str], where: Where) -> GpuLibraryFailed:
    return GpuLibraryFailed(where=where, what=" ".join(match[0].split()))


PATTERNS: tuple[Pattern, ...] = (
    pattern(
        "T16",
        _pool,
        r"Allocator \((?P<allocator>[^()\n]{1,200})\) ran out of memory",
        rf"trying to allocate (?P<request>{SIZE})(?=\s)",
        rf"(?:\(rounded to (?P<bytes>{INT})\))?",
        # what follows on the line is another message, not the name of an operation
        r"(?:requested by op(?:[ ](?P<operation>[\w/.:-]+)(?![^\n]*\S))?)?",
    ),
    Pattern(
        "T17",
        re.compile(
            r"CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED|ALLOC_FAILED)"
            r"|CUBLAS_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)|DNN library is not found"
            r"|Failed to load in-memory CUBIN(?::\s*CUDA_ERROR_OUT_OF_MEMORY)?"
            r"|CUDA_ERROR_OUT_OF_MEMORY"
        ),
        _library,
    ),
)
