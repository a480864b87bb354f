"""A timeline as the XSpace that XProf, TensorBoard and `jax.profiler.ProfileData` open."""

from __future__ import annotations

from vtpu.analysis.timeline.device_timeline import DeviceTimeline
from vtpu.reading.xplane.space import Space
from vtpu.report.profiles.device_planes import device_planes
from vtpu.report.profiles.host_planes import environment_plane, host_plane, modules_plane
from vtpu.units import format_count

#: Events of operations in one profile, by default: XProf opens that many in seconds.
MOST_EVENTS = 400_000


def profile_space(timeline: DeviceTimeline, most_events: int = MOST_EVENTS) -> Space:
    """The whole profile of a host: its devices, the programs, what the host did."""
    devices = device_planes(timeline, most_events)
    return Space(
        planes=(
            *devices.planes,
            host_plane(timeline),
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
    runtime = host_plane(timeline, plane="/host:TPU-runtime", line=thread, has_steps=False)
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
    without = [p.name for p in timeline.programs.values() if p.time is None]
    if without:
        names = ", ".join(dict.fromkeys(without))
        notes.append(
            f"vtpu: there is no model of {names}: their times are those of the host's call"
        )
    if events_left_out:
        notes.append(
            f"vtpu: {format_count(events_left_out)} events are not shown one by one: further passes "
            "of a loop stand as one pass that lasts as long (vtpu_passes says for how many)"
        )
    return (*notes, *(f"vtpu: {note}" for note in timeline.notes))


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
