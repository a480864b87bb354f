"""A plane for each device: its steps, programs, operations, transfers; what it is and its peaks.

Names of planes, lines and stats are those that libtpu writes (read off profiles of v4 and v6e), so that
XProf knows them; what begins with `vtpu_` is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.source_lines import UserLines
from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    Execution,
    LinkTransfer,
    TimedProgram,
    TimelineDevice,
)
from vtpu.chips import Generation, UnknownSlice, parse_slice
from vtpu.evidence import Basis
from vtpu.reading import wire
from vtpu.reading.xplane.collecting import Entry, Kinds, collect
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, StatColumn, StatValue
from vtpu.report.profiles.detail import PASSES, Detail, choose_details
from vtpu.report.profiles.operations import PS_PER_S, ProgramEvents, Template, band_text

LAUNCH = 12  # of tsl's ContextType: what links a launch on the host to its executions
_STEPS, _MODULES, _OPS, _ASYNC, _TRANSFERS = range(1, 6)
Spans = list[tuple[int, int]]
"""Begins and durations, picoseconds."""

_BASES = {
    Basis.MODELLED: "modelled",
    Basis.MEASURED: "measured on this machine: how long the call kept the host",
    None: "unknown: there is no model of the program",
}


@dataclass(frozen=True, slots=True)
class DevicePlanes:
    """The planes of all devices, and what they do not show one by one."""

    planes: tuple[Plane, ...]
    events_left_out: int


def device_planes(timeline: DeviceTimeline, most_events: int) -> DevicePlanes:
    """The planes of a timeline's devices.

    `most_events`: how many events of operations there may be in all; see `detail`.
    """
    maker = _Maker(timeline, most_events // max(1, len(timeline.devices)))
    made = [maker.plane(device) for device in timeline.devices]
    return DevicePlanes(tuple(plane for plane, _ in made), sum(left for _, left in made))


class _Maker:
    """Makes planes that share the kinds of their events."""

    def __init__(self, timeline: DeviceTimeline, most_events: int) -> None:
        self._timeline = timeline
        self._most_events = most_events
        self._generation = _generation(timeline.slice)
        self._kinds = Kinds()
        self._module_kinds: dict[int, int] = {}
        lines = UserLines(timeline.library_folders)
        self._programs = {
            key: ProgramEvents(program, program.module, lines, self._kinds)
            for key, program in timeline.programs.items()
            if program.time and program.module
        }
        self._sizes = {
            key: [events.count(passes) for passes in PASSES]
            for key, events in self._programs.items()
        }

    def plane(self, device: TimelineDevice) -> tuple[Plane, int]:
        """The plane of a device, and how many events it leaves out."""
        mine = [e for e in self._timeline.executions if e.device == device.id]
        mine.sort(key=lambda e: e.start_s)
        details = choose_details([e.program for e in mine], self._sizes, self._most_events)
        templates = [self._template(e.program, d) for e, d in zip(mine, details, strict=True)]
        spans = _apart([(e.start_s, e.end_s) for e in mine])
        transfers = [t for t in self._timeline.transfers if t.device == device.id]
        lines = (
            self._line(_STEPS, "Steps", self._steps(mine)),
            self._line(_MODULES, "XLA Modules", self._modules(mine, spans)),
            self._line(_OPS, "XLA Ops", _operations(spans, templates, is_async=False)),
            self._line(_ASYNC, "Async XLA Ops", self._async(mine, spans, templates)),
            self._line(_TRANSFERS, "Transfers", self._transfers(transfers)),
        )
        left = sum(self._left_out(e.program, d) for e, d in zip(mine, details, strict=True))
        shown = tuple(line for line in lines if len(line.events))
        return self._finish(device, shown, mine, left), left

    def _finish(
        self, device: TimelineDevice, lines: tuple[Line, ...], mine: list[Execution], left: int
    ) -> Plane:
        used = np.unique(np.concatenate([np.empty(0, int), *(x.events.metadata for x in lines)]))
        return Plane(
            id=device.ordinal + 1,
            name=f"/device:TPU:{device.ordinal}",
            lines=lines,
            metadata={n: self._kinds.metadata[n] for n in used.tolist()},
            stats={
                **_device_stats(device, self._generation),
                "vtpu_time_basis": _basis_of(mine),
                "vtpu_events_left_out": left,
            },
        )

    def _line(self, number: int, name: str, events: Events) -> Line:
        return Line(id=number, name=name, began_ns=self._timeline.began_unix_ns, events=events)

    # ---- programs and steps ----

    def _template(self, program: int, detail: Detail) -> Template | None:
        events = self._programs.get(program)
        if events is None:
            return None
        return events.whole if detail.is_whole else events.template(detail.passes)

    def _left_out(self, program: int, detail: Detail) -> int:
        events = self._programs.get(program)
        if events is None:
            return 0
        return events.count(None) - (1 if detail.is_whole else events.count(detail.passes))

    def _modules(self, executions: Sequence[Execution], spans: Spans) -> Events:
        return collect(
            Entry(
                metadata=self._module_kind(e.program),
                offset_ps=begin,
                duration_ps=duration,
                stats={
                    "run_id": e.number,
                    "_ct": LAUNCH,
                    "_c": e.number,
                    "vtpu_time_basis": _BASES[e.basis],
                },
            )
            for e, (begin, duration) in zip(executions, spans, strict=True)
        )

    def _module_kind(self, key: int) -> int:
        if key not in self._module_kinds:
            program = self._timeline.programs.get(key)
            self._module_kinds[key] = self._kinds.add(_describe_module(key, program))
        return self._module_kinds[key]

    def _steps(self, executions: Sequence[Execution]) -> Events:
        """A step reaches to where the next one begins, so that its idle time is part of it."""
        begins: dict[int, float] = {}
        ends: dict[int, float] = {}
        for e in executions:
            if e.step is not None:
                begins.setdefault(e.step, e.start_s)
                ends[e.step] = e.end_s
        numbers = sorted(begins, key=lambda step: begins[step])
        until = [*(begins[n] for n in numbers[1:]), *(ends[n] for n in numbers[-1:])]
        spans = _apart([(begins[n], end) for n, end in zip(numbers, until, strict=True)])
        return collect(
            Entry(metadata=self._kinds.named(str(n)), offset_ps=begin, duration_ps=duration)
            for n, (begin, duration) in zip(numbers, spans, strict=True)
        )

    # ---- operations and transfers ----

    def _async(
        self, mine: list[Execution], spans: Spans, templates: list[Template | None]
    ) -> Events:
        events = _operations(spans, templates, is_async=True)
        rows = np.arange(len(events))
        names = np.empty(len(events), object)
        parts = [
            [self._programs[e.program].name_of_end(i) for i in t.instruction[t.is_async].tolist()]
            for e, t in zip(mine, templates, strict=True)
            if t
        ]
        names[:] = [name for part in parts for name in part]
        stats = (
            StatColumn("hlo_op", rows, names),
            StatColumn("_a", rows, np.ones(len(events), np.int64)),
        )
        return Events(events.metadata, events.offset_ps, events.duration_ps, stats)

    def _transfers(self, transfers: Sequence[LinkTransfer]) -> Events:
        return collect(
            Entry(
                metadata=self._kinds.named(
                    "TransferToDevice" if t.to_device else "TransferFromDevice"
                ),
                offset_ps=_ps(t.start_s),
                duration_ps=_ps(t.end_s) - _ps(t.start_s),
                stats={"bytes_transferred": t.bytes, "vtpu_time_basis": _BASES[t.basis]},
            )
            for t in transfers
        )


def _operations(spans: Spans, templates: list[Template | None], *, is_async: bool) -> Events:
    """The operations of all executions, one after the other. None ends after its execution."""
    parts = [
        (t.metadata[w], start, np.minimum(start + t.duration_ps[w], begin + duration) - start)
        for (begin, duration), t in zip(spans, templates, strict=True)
        if t is not None
        for w in [t.is_async == is_async]
        for start in [t.offset_ps[w] + begin]
    ]
    if not parts:
        return Events()
    metadata, offset, duration = (np.concatenate(c) for c in zip(*parts, strict=True))
    return Events(metadata, offset, np.maximum(duration, 0))


def _describe_module(key: int, program: TimedProgram | None) -> EventMetadata:
    if program is None:
        return EventMetadata(name=f"(program {key})")
    stats: dict[str, StatValue] = {"program_id": program.id}
    if program.time:
        stats["vtpu_modelled_time"] = band_text(program.time.total)
        stats["vtpu_calibration"] = program.time.calibration
        stats["vtpu_operations_without_model"] = len(program.time.without_model)
    return EventMetadata(name=f"{program.name}({program.id})", stats=stats)


def _apart(spans: Sequence[tuple[float, float]]) -> Spans:
    """Begins and durations of what happens one after the other, a picosecond apart at least.

    XProf takes what begins when another ends to be in that one.
    """
    begins = [_ps(start) for start, _ in spans]
    ends = [_ps(end) for _, end in spans]
    limits = [begin - 1 for begin in begins[1:]] + ends[-1:]
    return [
        (begin, max(0, min(end, limit) - begin))
        for begin, end, limit in zip(begins, ends, limits, strict=True)
    ]


def _ps(seconds: float) -> int:
    return round(seconds * PS_PER_S)


def _basis_of(executions: Sequence[Execution]) -> str:
    """The bases of a plane's times, for people."""
    bases = dict.fromkeys(_BASES[e.basis] for e in executions)
    return "; ".join(bases) or "no execution"


# ---- the device --------------------------------------------------------------------------------


def _generation(name: str) -> Generation | None:
    try:
        return parse_slice(name).generation
    except UnknownSlice:  # a recording of another release
        return None


def _device_stats(device: TimelineDevice, generation: Generation | None) -> dict[str, StatValue]:
    """What XProf wants to know of a device. Peaks are those of the device, of all its cores."""
    stats: dict[str, StatValue] = {
        "core_details": _core_details(device),
        "device_type_string": device.kind,
        "device_id": device.id,
    }
    if generation is None:
        return stats
    chip = generation.chip
    share = chip.xla_devices_per_chip.value
    peak = chip.peak_flops_per_s("bf16")
    if peak:
        stats["peak_teraflops_per_second"] = peak.value / share / 1e12
    stats["peak_hbm_bw_gigabytes_per_second"] = chip.hbm_bandwidth_bytes_per_s.value / share / 1e9
    stats["has_megacore"] = int(chip.tensorcores_per_chip.value > share)
    return stats


def _core_details(device: TimelineDevice) -> bytes:
    """XProf's CoreDetails: where a core is in its host and its slice."""
    numbers = {2: device.ordinal, 3: device.core, 4: device.chip, 5: device.chip, 6: device.id}
    return b"".join(wire.write_field(number, value) for number, value in numbers.items())
