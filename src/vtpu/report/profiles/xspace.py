"""A timeline as the XSpace that XProf, TensorBoard and `jax.profiler.ProfileData` open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from vtpu.analysis.timeline.device_timeline import DeviceTimeline
from vtpu.clock.resources import Resource
from vtpu.evidence import Basis
from vtpu.reading.xplane.space import Space, StatValue
from vtpu.report.profiles.device_planes import device_planes
from vtpu.report.profiles.host_planes import (
    environment_plane,
    host_plane,
    modules_plane,
    runtime_plane,
)
from vtpu.units import format_count

#: Events of operations in one profile, by default: XProf opens that many in seconds.
MOST_EVENTS = 400_000


def profile_space(timeline: DeviceTimeline, most_events: int = MOST_EVENTS) -> Space:
    """The whole profile of a host: its devices, the programs, what the host did."""
    devices = device_planes(timeline, most_events)
    return Space(
        planes=(
            *devices.planes,
            replace(host_plane(timeline), stats=_utilization(timeline)),
            modules_plane(timeline.programs),
            environment_plane(timeline),
        ),
        warnings=profile_notes(timeline, devices.events_left_out),
        hostnames=(timeline.host_name,),
    )


def session_space(timeline: DeviceTimeline, thread: int, most_events: int = MOST_EVENTS) -> Space:
    """What a session of `jax.profiler` lacks: the devices, the programs, and what launched what.

    The rest of the host, and the time of the profile, are the profiler's own. It joins the plane of the
    runtime with its own; `thread` is the one that launches, as the system numbers it.
    """
    devices = device_planes(timeline, most_events)
    runtime = runtime_plane(timeline, thread)
    return Space(
        planes=(*devices.planes, runtime, modules_plane(timeline.programs)),
        warnings=profile_notes(timeline, devices.events_left_out),
    )


def profile_notes(timeline: DeviceTimeline, events_left_out: int) -> tuple[str, ...]:
    """What who reads the profile must know: no device was there, how good the times are."""
    notes = [
        f"vtpu: a virtual {timeline.slice}: times of devices are modelled, not measured"
        + _band(timeline)
    ]
    notes += _without_model(timeline)
    if events_left_out:
        notes.append(
            f"vtpu: {format_count(events_left_out)} events are not shown one by one: further passes "
            "of a loop stand as one pass that lasts as long (vtpu_passes says for how many)"
        )
    return (*notes, *(f"vtpu: {note}" for note in timeline.notes))


def _without_model(timeline: DeviceTimeline) -> list[str]:
    """Programs whose executions have no modelled time, and what stands in its place."""
    said = {
        None: "there is no model of {}: executions of it stand as moments",
        Basis.MEASURED: "there is no model of {}: the times of it are those of the host's call",
    }
    names = {key: program.name for key, program in timeline.programs.items()}
    notes: list[str] = []
    for basis, text in said.items():
        found = {names.get(e.program, "?") for e in timeline.executions if e.basis is basis}
        if found:
            notes.append(f"vtpu: {text.format(', '.join(sorted(found)))}")
    return notes


def _utilization(timeline: DeviceTimeline) -> dict[str, StatValue]:
    """How busy matrix units and HBM are over the whole profile; XProf shows it as their counters'."""
    executions = timeline.executions
    window = max((e.end_s for e in executions), default=0.0)
    window -= min((e.start_s for e in executions), default=0.0)
    busy: Counter[Resource] = Counter()
    counts = Counter(e.program for e in executions)
    for key, count in counts.items():
        program = timeline.programs.get(key)
        for operation in program.time.operations.values() if program and program.time else ():
            for resource, seconds in operation.busy.items():
                busy[resource] += seconds * operation.runs * count  # type: ignore[assignment]
    names = {
        Resource.MXU: "matrix_unit_utilization_percent",
        Resource.HBM: "hbm_utilization_percent",
    }
    whole = window * len(timeline.devices)
    return {names[r]: 100 * busy[r] / whole for r in names if r in busy and whole > 0}


def _band(timeline: DeviceTimeline) -> str:
    """The error band of the program that takes most time, as a share."""
    times = [p.time for p in timeline.programs.values() if p.time]
    if not times:
        return ""
    total = max(times, key=lambda time: time.total.seconds).total
    if not total.seconds:
        return ""
    low, high = 100 * (total.low / total.seconds - 1), 100 * (total.high / total.seconds - 1)
    return f"; the largest program is expected within {low:+.0f} % and {high:+.0f} %"
