"""HBM over a run, per device: in use, the peak and where it was, what was alive at a moment.

A running program holds its temporaries beside the buffers. They are counted at the moment when its
outputs have their memory, as the virtual slice reserves them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.replay.addresses import alive_rows, gaps_between, recorded_blocks
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.program.element_types import ElementType
from vtpu.recording.events import EventFlag, EventKind, MemoryKind, memory_kinds, select
from vtpu.recording.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class HbmTimeline:
    """HBM of one device. Row i is event `events[i]` of the recording; all arrays are as long.

    `in_use` counts buffers after the event, `reserved` the temporaries of a program at its event.
    """

    device: int
    limit: int
    events: np.ndarray
    in_use: np.ndarray
    reserved: np.ndarray

    @property
    def peak_row(self) -> int:
        """The row with the largest sum of bytes in use and reserved; -1 without events."""
        return int(np.argmax(self.in_use + self.reserved)) if len(self.events) else -1

    @property
    def peak_bytes(self) -> int:
        """That sum."""
        row = self.peak_row
        return int(self.in_use[row] + self.reserved[row]) if row >= 0 else 0

    @property
    def final_bytes(self) -> int:
        """Bytes in use after the last event."""
        return int(self.in_use[-1]) if len(self.events) else 0


def hbm_timeline(recording: Recording, device: int) -> HbmTimeline:
    """HBM of a device over the run."""
    events = recording.events
    kinds = events["kind"]
    in_hbm = memory_kinds(events) == MemoryKind.DEVICE
    is_buffer = np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE)) & in_hbm
    ran = (kinds == EventKind.EXECUTE) & (events["flags"] & EventFlag.FAILED == 0)
    runs_here = ran & programs_on(recording, device, events)
    rows = np.flatnonzero((is_buffer & (events["device"] == device)) | runs_here)
    own = select(events, rows)
    is_execution = own["kind"] == EventKind.EXECUTE
    sign = np.where(own["kind"] == EventKind.ALLOCATE, 1, -1)
    delta = np.where(is_execution, 0, sign * own["bytes"])
    in_use = np.cumsum(delta)
    reserved = np.zeros(len(rows), np.int64)
    _reserve(own, is_execution, reserved)
    return HbmTimeline(
        device=device, limit=recording.run.hbm_bytes, events=rows, in_use=in_use, reserved=reserved
    )


def host_memory(recording: Recording, device: int) -> tuple[int, int]:
    """Bytes of a device's host memories in use after the last event, and the most there were."""
    events = recording.events
    is_buffer = np.isin(events["kind"], (EventKind.ALLOCATE, EventKind.FREE))
    in_host = memory_kinds(events) != MemoryKind.DEVICE
    own = events[is_buffer & in_host & (events["device"] == device)]
    in_use = np.cumsum(np.where(own["kind"] == EventKind.ALLOCATE, own["bytes"], -own["bytes"]))
    return (int(in_use[-1]), int(in_use.max())) if len(in_use) else (0, 0)


def programs_on(recording: Recording, device: int, events: np.ndarray) -> np.ndarray:
    """Which events are of programs that run on `device`."""
    size = max((p.number for p in recording.programs), default=0) + 1
    on_device = np.zeros(size, bool)
    for program in recording.programs:
        on_device[program.number] = device in program.device_ids
    numbers = np.minimum(events["program"], size - 1)
    everywhere = (events["device"] == -1) & on_device[numbers] & (events["program"] < size)
    return (events["device"] == device) | everywhere


def _reserve(own: np.ndarray, is_execution: np.ndarray, reserved: np.ndarray) -> None:
    """Puts each execution's temporaries on the row where its last output was placed."""
    starts = np.flatnonzero(is_execution)
    is_output = (
        (own["kind"] == EventKind.ALLOCATE)
        & (own["program"] > 0)
        & (own["flags"] & EventFlag.ALIASED == 0)
    )
    others = np.append(np.flatnonzero(~is_output), len(own))
    ends = others[np.searchsorted(others, starts + 1)] - 1
    np.maximum.at(reserved, ends, own["bytes"][starts])


def local_devices(recording: Recording) -> tuple[int, ...]:
    """The devices of this host."""
    return tuple(d.id for d in recording.run.devices if d.host == recording.run.host)


# ---- what was alive ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AliveGroup:
    """Buffers of one shape that one line made, alive at a moment on one device."""

    line: SourceLine
    shape: str
    program: str | None
    count: int
    bytes: int


def alive_at(
    recording: Recording, device: int, event: int, lines: LineFinder
) -> tuple[AliveGroup, ...]:
    """What HBM of `device` held just before event number `event`, largest group first."""
    alive = recording.events[alive_rows(recording, device, event)]
    names = {p.number: p.name for p in recording.programs}
    groups: dict[tuple[SourceLine, str, str | None], list[int]] = defaultdict(list)
    for row in alive:
        key = (
            lines.line(int(row["stack"])),
            shape_text(recording, int(row["detail"])),
            names.get(int(row["program"])),
        )
        groups[key].append(int(row["bytes"]))
    found = [
        AliveGroup(line=line, shape=shape, program=program, count=len(sizes), bytes=sum(sizes))
        for (line, shape, program), sizes in groups.items()
    ]
    return tuple(sorted(found, key=lambda g: (-g.bytes, g.line, g.shape)))


def shape_text(recording: Recording, number: int) -> str:
    """A shape of the recording as XLA prints it, without its layout: `f32[8,128]`."""
    shape = recording.shape(number)
    if shape is None:
        return "?"
    return f"{ElementType(shape.element_type).xla_name}[{','.join(map(str, shape.dims))}]"


# ---- the summary -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HbmSummary:
    """HBM of one device over the run, bytes. `peak_*` say what was going on at the peak.

    Free memory after the last event: all of it, its largest piece, and what a program can reserve.
    `host_*`: arrays that JAX keeps in the host's memory for this device.
    """

    device: int
    in_use_bytes: int
    free_bytes: int
    largest_free_bytes: int
    reservable_bytes: int
    peak_bytes: int
    peak_reserved_bytes: int
    limit_bytes: int
    peak_line: SourceLine
    peak_program: str | None
    host_in_use_bytes: int
    host_peak_bytes: int


def summarize_hbm(recording: Recording, lines: LineFinder) -> tuple[HbmSummary, ...]:
    """HBM of each device of this host."""
    return tuple(_summarize(recording, d, lines) for d in local_devices(recording))


def _summarize(recording: Recording, device: int, lines: LineFinder) -> HbmSummary:
    timeline = hbm_timeline(recording, device)
    row = timeline.peak_row
    event = recording.events[timeline.events[row]] if row >= 0 else None
    names = {p.number: p.name for p in recording.programs}
    host_in_use, host_peak = host_memory(recording, device)
    blocks = recorded_blocks(recording, device, len(recording.events))
    gaps = gaps_between(blocks, timeline.limit)
    return HbmSummary(
        device=device,
        in_use_bytes=timeline.final_bytes,
        free_bytes=gaps.free,
        largest_free_bytes=gaps.largest,
        reservable_bytes=gaps.at_bottom,
        peak_bytes=timeline.peak_bytes,
        peak_reserved_bytes=int(timeline.reserved[row]) if row >= 0 else 0,
        limit_bytes=timeline.limit,
        peak_line=lines.line(int(event["stack"]) if event is not None else 0),
        peak_program=names.get(int(event["program"])) if event is not None else None,
        host_in_use_bytes=host_in_use,
        host_peak_bytes=host_peak,
    )
