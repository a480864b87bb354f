"""What crossed between host and device, and between memories, by the user's line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import (
    EventFlag,
    EventKind,
    MemoryKind,
    memory_kinds,
    of_kind,
    source_kinds,
)
from vtpu.recording.recording import Recording


class Direction(StrEnum):
    """Which way bytes went."""

    HOST_TO_DEVICE = "host to device"
    DEVICE_TO_HOST = "device to host"
    DEVICE_TO_DEVICE = "device to device"
    HOST_TO_HOST = "host to host"  # from or to host memory of JAX's; no link is crossed
    CALLBACK = "callback"  # a program called the host and handed it values


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSummary:
    """The transfers of one direction from one line. Bytes as the host holds them, of copies between
    memories as the device does.
    """

    direction: Direction
    line: SourceLine
    count: int
    bytes: int
    largest_bytes: int


def summarize_transfers(recording: Recording, lines: LineFinder) -> tuple[TransferSummary, ...]:
    """The transfers by direction and line, most bytes first within a direction."""
    found: dict[tuple[Direction, SourceLine], list[int]] = defaultdict(lambda: [0, 0, 0])
    for direction, events in _by_direction(recording.events):
        for stack, count, total, largest in _by_stack(events):
            entry = found[direction, lines.line(stack)]
            entry[0] += count
            entry[1] += total
            entry[2] = max(entry[2], largest)
    order = list(Direction)
    rows = [
        TransferSummary(direction=d, line=line, count=c, bytes=b, largest_bytes=m)
        for (d, line), (c, b, m) in found.items()
    ]
    return tuple(sorted(rows, key=lambda r: (order.index(r.direction), -r.bytes, -r.count, r.line)))


def _by_direction(events: np.ndarray) -> list[tuple[Direction, np.ndarray]]:
    sent = of_kind(events, EventKind.HOST_TO_DEVICE)
    read = of_kind(events, EventKind.DEVICE_TO_HOST)
    copies = of_kind(events, EventKind.COPY)
    sent_in_host, read_in_host, to_host = (
        memory_kinds(rows) != MemoryKind.DEVICE for rows in (sent, read, copies)
    )
    from_host = source_kinds(copies) != MemoryKind.DEVICE
    return [
        (Direction.HOST_TO_DEVICE, sent[~sent_in_host]),
        (Direction.HOST_TO_DEVICE, copies[from_host & ~to_host]),
        (Direction.DEVICE_TO_HOST, read[~read_in_host]),
        (Direction.DEVICE_TO_HOST, copies[to_host & ~from_host]),
        (Direction.DEVICE_TO_DEVICE, copies[~to_host & ~from_host]),
        (Direction.HOST_TO_HOST, sent[sent_in_host]),
        (Direction.HOST_TO_HOST, read[read_in_host]),
        (Direction.HOST_TO_HOST, copies[to_host & from_host]),
        (Direction.CALLBACK, of_kind(events, EventKind.CALLBACK)),
    ]


def _by_stack(events: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(stack, count, bytes, largest) of events."""
    stacks, inverse = np.unique(events["stack"], return_inverse=True)
    counts = np.bincount(inverse, minlength=len(stacks))
    totals = np.zeros(len(stacks), np.int64)
    largest = np.zeros(len(stacks), np.int64)
    np.add.at(totals, inverse, events["bytes"])
    np.maximum.at(largest, inverse, events["bytes"])
    rows = zip(stacks, counts, totals, largest, strict=True)
    return [(int(s), int(c), int(t), int(m)) for s, c, t, m in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricatedValues:
    """Values that the host looked at and that could not be had, from one line, and why.

    `how`: `read` and `callback` saw what stands for unknown values, zeros by default; `read, as here`
    what this host had sent, where JAX asked for what other hosts have.
    """

    line: SourceLine
    how: str
    why: str
    count: int
    bytes: int


def find_fabricated_values(recording: Recording, lines: LineFinder) -> tuple[FabricatedValues, ...]:
    """Where the program looked at values that could not be had, most often first."""
    found: dict[tuple[SourceLine, str, str], list[int]] = defaultdict(lambda: [0, 0])
    kinds = (
        (EventKind.DEVICE_TO_HOST, EventFlag.FABRICATED, "read"),
        (EventKind.DEVICE_TO_HOST, EventFlag.ASSUMED, "read, as here"),
        (EventKind.CALLBACK, EventFlag.FABRICATED, "callback"),
    )
    for kind, flag, how in kinds:
        events = of_kind(recording.events, kind)
        events = events[events["flags"] & flag != 0]
        for number in np.unique(events["why"]).tolist():
            why = recording.why(number)
            for stack, count, total, _ in _by_stack(events[events["why"] == number]):
                found[lines.line(stack), how, why][0] += count
                found[lines.line(stack), how, why][1] += total
    rows = [
        FabricatedValues(line=line, how=how, why=why, count=count, bytes=total)
        for (line, how, why), (count, total) in found.items()
    ]
    return tuple(sorted(rows, key=lambda r: (-r.count, r.line, r.how, r.why)))
