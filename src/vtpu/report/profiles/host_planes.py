"""Planes that are of no device: what the host did, the programs' modules, when the profile was taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    HostSpan,
    HostWork,
    TimedProgram,
)
from vtpu.reading import wire
from vtpu.reading.xplane.collecting import Entry, Kinds, collect
from vtpu.reading.xplane.space import EventMetadata, Line, Plane, StatValue
from vtpu.report.profiles.device_planes import LAUNCH
from vtpu.report.profiles.operations import PS_PER_S

_MODULE = 1  # of HloProto and of HloModuleProtoWithConfig
_ASSIGNMENT = 3  # of HloProto
_STEP = "step"
_HOST_PLANE = 1000
_SHORTEST_S = 1e-6  # of a last step: one that takes no time would be taken to be in the one before
_CALL = 14  # of tsl's ContextType: what links a call of JAX to what a plugin did for it


def host_plane(timeline: DeviceTimeline) -> Plane:
    """What the host did: a line for each of its threads, steps around what is in them."""
    kinds = Kinds()
    threads = sorted({span.thread for span in timeline.host})
    lines = tuple(
        _line(timeline, thread, f"thread {thread}", _thread(timeline, thread, kinds))
        for thread in threads
    )
    return Plane(id=_HOST_PLANE, name="/host:CPU", lines=lines, metadata=kinds.metadata)


def runtime_plane(timeline: DeviceTimeline, line: int) -> Plane:
    """What launched executions, to be joined with the host's plane of another profiler.

    The launch that begins a step stands for it, unless a step that the user annotates is around it.
    `line` is the number of the thread that launches, as the system has it.
    """
    kinds = Kinds()
    entries = [_entry(span, kinds, is_root=begins) for span, begins in _begins(timeline.host)]
    found = _line(timeline, line, "launches", entries)
    return Plane(id=_HOST_PLANE, name="/host:TPU-runtime", lines=(found,), metadata=kinds.metadata)


def _thread(timeline: DeviceTimeline, thread: int, kinds: Kinds) -> list[Entry]:
    spans = [span for span in timeline.host if span.thread == thread]
    # Of two events of the same time the first is taken to be around the other.
    return [*_steps(spans, kinds), *(_entry(span, kinds, is_root=False) for span in spans)]


def _line(timeline: DeviceTimeline, number: int, name: str, entries: Iterable[Entry]) -> Line:
    return Line(id=number, name=name, began_ns=timeline.began_unix_ns, events=collect(entries))


def _begins(spans: Iterable[HostSpan]) -> Iterable[tuple[HostSpan, bool]]:
    """The spans, and whether each begins a step: it is the first launch of one."""
    seen: set[int] = set()
    for span in spans:
        begins = span.work is HostWork.EXECUTE and span.step is not None and span.step not in seen
        if begins and span.step is not None:
            seen.add(span.step)
        yield span, begins


def _entry(span: HostSpan, kinds: Kinds, *, is_root: bool) -> Entry:
    stats: dict[str, StatValue] = {}
    if span.line:
        stats["source"] = span.line
    if span.bytes is not None:
        stats["bytes_transferred"] = span.bytes
    if span.execution is not None:
        stats |= {"_pt": LAUNCH, "_p": span.execution, "run_id": span.execution}
    if span.context is not None:
        stats |= {"_ct": _CALL, "_c": span.context}
    if is_root and span.step is not None:
        stats |= {"_r": 1, "step_num": span.step}
    return Entry(
        metadata=kinds.named(f"{span.work} {span.name}".rstrip()),
        offset_ps=_ps(span.start_s),
        duration_ps=_ps(span.end_s) - _ps(span.start_s),
        stats=stats,
    )


def _steps(spans: Iterable[HostSpan], kinds: Kinds) -> list[Entry]:
    """Each step on the host, from its first launch to that of the next."""
    begins: dict[int, float] = {}
    last = 0.0
    for span in spans:
        if span.step is not None and span.work is HostWork.EXECUTE:
            begins.setdefault(span.step, span.start_s)
        last = max(last, span.end_s)
    starts = list(begins.values())
    ends = [*starts[1:], *(max(last, start + _SHORTEST_S) for start in starts[-1:])]
    return [
        Entry(
            metadata=kinds.named(_STEP),
            offset_ps=_ps(start),
            duration_ps=max(0, _ps(end) - _ps(start)),
            stats={"_r": 1, "step_num": step},
        )
        for (step, start), end in zip(begins.items(), ends, strict=False)
    ]


def _ps(seconds: float) -> int:
    return round(seconds * PS_PER_S)


def modules_plane(programs: Mapping[int, TimedProgram]) -> Plane:
    """The modules by number of their program: for XProf's memory, graph and operation viewers."""
    known = {p.id: p for p in programs.values() if p.hlo}
    return Plane(
        id=1001,
        name="/host:metadata",
        metadata={
            p.id: EventMetadata(name=f"{p.name}({p.id})", stats={"Hlo Proto": _hlo_proto(p)})
            for p in known.values()
        },
    )


def _hlo_proto(program: TimedProgram) -> bytes:
    """An `HloProto`: the module with its buffer assignment."""
    proto = wire.write_field(_MODULE, wire.find_bytes(program.hlo, _MODULE))
    if program.assignment:
        proto += wire.write_field(_ASSIGNMENT, program.assignment)
    return proto


def environment_plane(timeline: DeviceTimeline) -> Plane:
    """When the profile began and ended, Unix time in nanoseconds."""
    ends = [e.end_s for e in (*timeline.executions, *timeline.host, *timeline.transfers)]
    end_ns = timeline.began_unix_ns + round(max(ends, default=0.0) * 1e9)
    return Plane(
        id=1002,
        name="Task Environment",
        stats={"profile_start_time": timeline.began_unix_ns, "profile_stop_time": end_ns},
    )
