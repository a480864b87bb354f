"""The timeline of a recording: on the virtual clock, where it says what the host's threads did.

Of an older recording executions stand in their recorded order, each as soon as the host launched it and
its devices are free, and the host's times are those of this machine.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.run.calls import knows_host_time
from vtpu.analysis.source_lines import LineFinder
from vtpu.analysis.timeline.clocked import run_in_time
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
    host_speed: float = 1.0,
) -> DeviceTimeline:
    """The timeline of a recording, or of a part of it.

    Args:
        recording: what happened.
        times: what an execution of each program takes.
        host_name: the name of the profile's host.
        window: the part to show, beside what the host did meanwhile on this machine; by default all.
        host_speed: how much faster the slice's host computes than this machine.
    """
    shown = _shown(recording.events, window or Window(0, 0))
    launched = set(shown["program"][shown["kind"] == EventKind.EXECUTE].tolist())
    programs = {
        p.number: timed_program(p, times(p)) for p in recording.programs if p.number in launched
    }
    run = recording.run
    whole = DeviceTimeline(
        began_unix_ns=window.began_unix_ns if window else round(run.started_unix_s * 1e9),
        host_name=host_name,
        slice=run.slice,
        devices=timeline_devices(run),
        programs=programs,
        executions=(),
        library_folders=run.library_folders,
        notes=_notes(recording),
    )
    if knows_host_time(recording):
        began_ns = window.began_ns if window else None
        placed = run_in_time(recording, times, whole, host_speed, began_ns)
    else:
        placed = _back_to_back(recording, whole, shown, window or Window(0, 0))
    return _with_steps(placed) if window is None else _with_the_host(placed, recording, window)


def _with_steps(timeline: DeviceTimeline) -> DeviceTimeline:
    """The same with the step of every execution, and of what launched it."""
    steps = steps_of(timeline.executions, timeline.programs)
    return replace(
        timeline,
        executions=tuple(replace(e, step=steps.get(e.number)) for e in timeline.executions),
        host=tuple(
            s if s.execution is None else replace(s, step=steps.get(s.execution))
            for s in timeline.host
        ),
    )


def _with_the_host(
    timeline: DeviceTimeline, recording: Recording, window: Window
) -> DeviceTimeline:
    """The same with what the host did on this machine, which another profiler shows too."""
    events = _shown(recording.events, window)
    return _with_steps(replace(timeline, host=tuple(_host(events, recording, window))))


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
    kinds = np.isin(events["kind"], [int(kind) for kind in _WORK])
    failed = (events["flags"] & EventFlag.FAILED != 0) & np.isin(
        events["kind"], [int(EventKind.EXECUTE)]
    )
    return select(events, kinds & ~failed & (events["time_ns"] >= window.began_ns))


def _back_to_back(
    recording: Recording, whole: DeviceTimeline, events: np.ndarray, window: Window
) -> DeviceTimeline:
    """Every execution on each of its devices: when the host launched it and all of them are free."""
    on = {p.number: p.device_ids for p in recording.programs}
    free = {device.id: 0.0 for device in whole.devices}
    placed: list[Execution] = []
    for event in select(events, events["kind"] == EventKind.EXECUTE):
        key = int(event["program"])
        program = whole.programs.get(key)
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
    return replace(
        whole,
        executions=tuple(placed),
        transfers=tuple(_transfers(events, window)),
        host=tuple(_host(events, recording, window)),
    )


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
    if not executions:
        return {}
    main = _main_program(executions, names)
    steps: dict[int, int] = {}
    current = -1
    for e in executions:
        if e.number in steps:
            continue
        current += names.get(e.program, "") == main
        if current >= 0:
            steps[e.number] = current
    return steps


def _main_program(executions: Sequence[Execution], names: Mapping[int, str]) -> str:
    """The name of the program that takes most time, of those that are executed again and again."""
    seconds: dict[str, float] = {}
    launches = Counter(
        names.get(key, "") for key in {e.number: e.program for e in executions}.values()
    )
    for e in executions:
        name = names.get(e.program, "")
        seconds[name] = seconds.get(name, 0.0) + e.end_s - e.start_s
    often = [name for name in seconds if launches[name] > 1] or list(seconds)
    return max(often, key=lambda name: (seconds[name], launches[name]))


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


def _host(events: np.ndarray, recording: Recording, window: Window) -> Iterator[HostSpan]:
    lines = LineFinder(recording)
    names = {p.number: p.name for p in recording.programs}
    for event in events:
        kind = EventKind(event["kind"])
        start = _seconds(event, window)
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
