"""A recording as profile files: what `vtpu run --xprof --perfetto` and `jax.profiler` write."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from vtpu.analysis.timeline.recorded import Window, recorded_timeline
from vtpu.analysis.timeline.times import Times, program_times
from vtpu.reading.xplane.space import Space
from vtpu.reading.xplane.writing import encode_space
from vtpu.recording.recording import Recording
from vtpu.report.profiles.files import write_profile, write_xspace
from vtpu.report.profiles.perfetto import perfetto_trace
from vtpu.report.profiles.xspace import profile_space, session_space


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """Which profiles to write: a folder for XProf and TensorBoard, a file for Perfetto."""

    xprof: Path | None = None
    perfetto: Path | None = None

    def __bool__(self) -> bool:
        """Whether any is asked for."""
        return self.xprof is not None or self.perfetto is not None


def write_profiles(
    recording: Recording, files: ProfileFiles, host_speed: float = 1.0
) -> tuple[str, ...]:
    """Writes the profiles of a recording. Sentences on what was written and how to open it.

    `host_speed`: how much faster the slice's host computes than this machine.

    Raises:
        UsageError: a file cannot be written.
    """
    space = recording_space(recording, host_speed=host_speed)
    said: list[str] = []
    if files.xprof:
        host, began = socket.gethostname(), recording.run.started_unix_s
        path = write_xspace(encode_space(space), files.xprof, host, began)
        said.append(f"Profile: {path} (`xprof --logdir {files.xprof}` or TensorBoard opens it)")
    if files.perfetto:
        write_profile(perfetto_trace(space), files.perfetto)
        said.append(f"Trace: {files.perfetto} (ui.perfetto.dev opens it)")
    return tuple(said)


def recording_space(
    recording: Recording, times: Times | None = None, host_speed: float = 1.0
) -> Space:
    """The profile of a whole recording."""
    timeline = recorded_timeline(
        recording,
        times or program_times(recording),
        host_name=socket.gethostname(),
        host_speed=host_speed,
    )
    return profile_space(timeline)


def session_profile(recording: Recording, began_ns: int, began_unix_ns: int) -> bytes:
    """What `jax.profiler` gets of the devices: what was recorded from `began_ns` on.

    The host's own events are JAX's; ours say which of them launched what.
    """
    window = Window(began_ns, began_unix_ns)
    timeline = recorded_timeline(
        recording, program_times(recording), host_name=socket.gethostname(), window=window
    )
    thread = threading.main_thread().native_id or 1
    return encode_space(session_space(timeline, thread))
