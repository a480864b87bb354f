"""The timeline of a recording: on the virtual clock, or on the clock of this machine.

On the virtual clock everything stands where it would have on the slice. On this machine's clock executions
stand in their recorded order, each as soon as its devices are free, beside what the host did here: so
that they go with events of the host that somebody else measured.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.run.virtual_clock import VirtualRun
from vtpu.analysis.source_lines import LineFinder
from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    Execution,
    HostSpan,
    HostWork,
    LinkTransfer,
    TimedProgram,
    TimelineDevice,
)
from vtpu.analysis.timeline.times import Times, without_times
from vtpu.clock.program_time import ProgramTime
from vtpu.evidence import Basis
from vtpu.program.locations import CANONICAL_FILE, SourceStacks
from vtpu.reading.hlo_module import replace_stack_frames
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.events import EventFlag, EventKind, select
from vtpu.recording.recording import ProgramRecord, Recording, RunRecord

_WORK = {
    EventKind.EXECUTE: HostWork.EXECUTE,
    EventKind.COMPILE: HostWork.COMPILE,
    EventKind.HOST_TO_DEVICE: HostWork.TO_DEVICE,
    EventKind.DEVICE_TO_HOST: HostWork.FROM_DEVICE,
    EventKind.COPY: HostWork.COPY,
    EventKind.CALLBACK: HostWork.CALLBACK,
}
_TRANSFERS = (EventKind.HOST_TO_DEVICE, EventKind.DEVICE_TO_HOST)


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a recording to show: from `began_ns` on its own clock, which was `began_unix_ns`."""

    began_ns: int
    began_unix_ns: int


def recorded_timeline(
    recording: Recording,
    times: Times = without_times,
    *,
    host_name: str,
    window: Window | None = None,
    virtual: VirtualRun | None = None,
) -> DeviceTimeline:
    """The timeline of a recording, or of a part of it.

    Args:
        recording: what happened.
        times: what an execution of each program takes.
        host_name: the name of the profile's host.
        window: the part to show; by default all of it.
        virtual: the run on the virtual clock, with the same times; without it, on this machine's.
    """
    run = recording.run
    window = window or Window(0, round(run.started_unix_s * 1e9))
    events = _shown(recording.events, window)
    launched = set(events["program"][events["kind"] == EventKind.EXECUTE].tolist())
    programs = {
        p.number: timed_program(p, times(p)) for p in recording.programs if p.number in launched
    }
    devices = timeline_devices(run)
    if virtual:
        executions = list(_virtual_executions(virtual, recording, programs, devices))
    else:
        executions = _placed(events, recording, programs, devices, window)
    steps = steps_of(executions, programs)
    return DeviceTimeline(
        began_unix_ns=window.began_unix_ns,
        host_name=host_name,
        slice=run.slice,
        devices=devices,
        programs=programs,
        executions=tuple(replace(e, step=steps.get(e.number)) for e in executions),
        transfers=tuple(_virtual_transfers(virtual) if virtual else _transfers(events, window)),
        host=tuple(
            _host(
                events, recording, steps, _virtual_places(virtual, recording) if virtual else window
            )
        ),
        library_folders=run.library_folders,
        notes=_notes(recording),
    )


def timeline_devices(run: RunRecord) -> tuple[TimelineDevice, ...]:
    """The devices of the host that was recorded, in the order of their ids."""
    mine = sorted((d for d in run.devices if d.host == run.host), key=lambda d: d.id)
    chips: dict[tuple[int, tuple[int, ...]], int] = {}
    return tuple(
        TimelineDevice(
            id=d.id,
            kind=d.kind,
            ordinal=ordinal,
            chip=chips.setdefault((d.slice_index, d.coords), len(chips)),
            core=d.core,
        )
        for ordinal, d in enumerate(mine)
    )


def timed_program(program: ProgramRecord, time: ProgramTime | None) -> TimedProgram:
    """A recorded program with its time. Without a module where the recording holds none, or damage."""
    number = int.from_bytes(
        hashlib.sha256((program.key or program.name).encode()).digest()[:7], "big"
    )
    try:
        hlo = _with_places(program)
        module = read_wrapped_module(hlo) if hlo else None
        assignment = zlib.decompress(program.assignment) if program.assignment else b""
    except (WireError, zlib.error):
        return TimedProgram(id=number, name=program.name, time=time)
    return TimedProgram(
        id=number, name=program.name, module=module, time=time, hlo=hlo, assignment=assignment
    )


def _with_places(program: ProgramRecord) -> bytes:
    """The module with the user's lines in place of the canonical ones."""
    hlo = zlib.decompress(program.hlo) if program.hlo else b""
    if not (hlo and program.locations):
        return hlo
    return replace_stack_frames(hlo, CANONICAL_FILE, SourceStacks(program.locations))


# ---- executions --------------------------------------------------------------------------------


def _shown(events: np.ndarray, window: Window) -> np.ndarray:
    """The events to show: of kinds that take time, that happened, in the window."""
    return select(events, _shown_places(events) & (events["time_ns"] >= window.began_ns))


def _shown_places(events: np.ndarray) -> np.ndarray:
    """Which events to show."""
    kinds = np.isin(events["kind"], [int(kind) for kind in _WORK])
    failed = (events["flags"] & EventFlag.FAILED != 0) & np.isin(
        events["kind"], [int(EventKind.EXECUTE)]
    )
    return kinds & ~failed


def _placed(
    events: np.ndarray,
    recording: Recording,
    programs: Mapping[int, TimedProgram],
    devices: Sequence[TimelineDevice],
    window: Window,
) -> list[Execution]:
    """Every execution on each of its devices: when the host launched it and all of them are free."""
    on = {p.number: p.device_ids for p in recording.programs}
    free = {device.id: 0.0 for device in devices}
    placed: list[Execution] = []
    for event in select(events, events["kind"] == EventKind.EXECUTE):
        key = int(event["program"])
        program = programs.get(key)
        time = program.time if program else None
        mine = [d for d in _devices(event, on.get(key, ())) if d in free]
        start = max([_seconds(event, window), *(free[d] for d in mine)])
        end = start + (time.total.seconds if time else max(0, int(event["host_ns"])) / 1e9)
        for device in mine:
            free[device] = end
            placed.append(
                Execution(
                    number=int(event["subject"]),
                    program=key,
                    device=device,
                    start_s=start,
                    end_s=end,
                    basis=Basis.MODELLED if time else Basis.MEASURED,
                )
            )
    return placed


def _devices(event: np.void, of_program: tuple[int, ...]) -> tuple[int, ...]:
    return of_program if int(event["device"]) < 0 else (int(event["device"]),)


def _seconds(event: np.void, window: Window) -> float:
    return max(0, int(event["time_ns"]) - window.began_ns) / 1e9


def steps_of(
    executions: Sequence[Execution], programs: Mapping[int, TimedProgram]
) -> dict[int, int]:
    """The step of each execution, by its number.

    A step begins with each execution of the program that takes most time of all, by its name, and goes
    on until the next; what comes before the first belongs to none.
    """
    names = {key: program.name for key, program in programs.items()}
    seconds: Counter[str] = Counter()
    for e in executions:
        seconds[names.get(e.program, "")] += e.end_s - e.start_s  # type: ignore[assignment]
    if not seconds:
        return {}
    main = seconds.most_common(1)[0][0]
    steps: dict[int, int] = {}
    current = -1
    for e in executions:
        if e.number in steps:
            continue
        current += names.get(e.program, "") == main
        if current >= 0:
            steps[e.number] = current
    return steps


# ---- on the virtual clock ----------------------------------------------------------------------


def _virtual_executions(
    virtual: VirtualRun,
    recording: Recording,
    programs: Mapping[int, TimedProgram],
    devices: Sequence[TimelineDevice],
) -> Iterator[Execution]:
    numbers = recording.events["subject"][virtual.executions["event"]].tolist()
    here = {device.id for device in devices}
    for number, row in zip(numbers, virtual.executions, strict=True):
        key, own = int(row["program"]), int(row["device"])
        program = programs.get(key)
        for device in virtual.devices_of(key) if own < 0 else (own,):
            if device in here:
                yield Execution(
                    number=int(number),
                    program=key,
                    device=device,
                    start_s=int(row["begin_ns"]) / 1e9,
                    end_s=int(row["end_ns"]) / 1e9,
                    basis=Basis.MODELLED if program and program.time else Basis.SIMULATED,
                )


def _virtual_transfers(virtual: VirtualRun) -> Iterator[LinkTransfer]:
    for row in virtual.transfers:
        yield LinkTransfer(
            device=int(row["device"]),
            to_device=not row["to_host"],
            start_s=int(row["begin_ns"]) / 1e9,
            end_s=int(row["end_ns"]) / 1e9,
            bytes=int(row["bytes"]),
            basis=Basis.MODELLED,
        )


def _virtual_places(virtual: VirtualRun, recording: Recording) -> np.ndarray:
    """Seconds on the virtual clock at which each event's call began.

    Calls of which the clock keeps no time of their own stand at that of the call before.
    """
    places = np.full(len(recording.events), -1.0)
    places[virtual.transfers["event"]] = virtual.transfers["begin_ns"] / 1e9
    places[virtual.executions["event"]] = virtual.executions["asked_ns"] / 1e9
    return np.maximum.accumulate(np.maximum(places, 0.0))


# ---- transfers and the host --------------------------------------------------------------------


def _transfers(events: np.ndarray, window: Window) -> Iterator[LinkTransfer]:
    for event in select(events, np.isin(events["kind"], [int(kind) for kind in _TRANSFERS])):
        start = _seconds(event, window)
        yield LinkTransfer(
            device=int(event["device"]),
            to_device=int(event["kind"]) == EventKind.HOST_TO_DEVICE,
            start_s=start,
            end_s=start + max(0, int(event["host_ns"])) / 1e9,
            bytes=max(0, int(event["bytes"])),
            basis=Basis.MEASURED,
        )


def _host(
    events: np.ndarray, recording: Recording, steps: Mapping[int, int], places: Window | np.ndarray
) -> Iterator[HostSpan]:
    """What the host did. `places`: the window, or where each event stands on the virtual clock."""
    lines = LineFinder(recording)
    names = {p.number: p.name for p in recording.programs}
    starts = places[_shown_places(recording.events)] if isinstance(places, np.ndarray) else None
    for i, event in enumerate(events):
        kind = EventKind(event["kind"])
        start = float(starts[i]) if starts is not None else _seconds(event, places)  # type: ignore[arg-type]
        number = int(event["subject"]) if kind is EventKind.EXECUTE else None
        has_bytes = kind not in (EventKind.EXECUTE, EventKind.COMPILE) and event["bytes"] >= 0
        line = lines.line(int(event["stack"]))
        yield HostSpan(
            work=_WORK[kind],
            start_s=start,
            end_s=start + max(0, int(event["host_ns"])) / 1e9,
            name=names.get(int(event["program"]), ""),
            line=str(line) if line.line else "",
            execution=number,
            context=_context(event) if number is not None else None,
            step=None if number is None else steps.get(number),
            bytes=int(event["bytes"]) if has_bytes else None,
        )


def _context(event: np.void) -> int | None:
    number = int(event["address"])
    return number if number > 0 else None


def _notes(recording: Recording) -> tuple[str, ...]:
    notes = list(recording.problems)
    if recording.end and recording.end.dropped_events:
        notes.append(f"{recording.end.dropped_events:,} events were lost: memory ran out")
    return tuple(notes)
