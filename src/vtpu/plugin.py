"""The ways in that need no command: the `jax_plugins` entry point and `vtpu.attach`.

JAX imports this module at the start of every program in an environment that has vtpu installed, so
it imports nothing by itself and does nothing unless the environment asks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtpu.device.attach import Session
    from vtpu.recording.recording import Recording


def initialize() -> None:
    """Called by JAX: puts the slice in place when `JAX_PLATFORMS=vtpu` or `VTPU_ON` is set."""
    from vtpu.device.settings import is_asked_for

    if not is_asked_for():
        return
    from vtpu.device.attach import attach_when_used, current_session

    if current_session() is None:
        _profile_by_report()
        attach_when_used(_print_report)


def attach(
    on: str | None = None,
    *,
    host: int | None = None,
    out: str | None = None,
    report: bool = True,
    values: str | None = None,
    values_budget: str | None = None,
    unknown: str | None = None,
    pace: bool | Callable[[str], float | None] | None = None,
    host_speed: float | None = None,
) -> Session:
    """Makes this process run on a virtual TPU slice; for the top of a notebook or script.

    Args:
        on: the slice, in any dialect: `"v5e-16"`, `"v5p:4x4x4"`. Default: `VTPU_ON`, else `v5e-16`.
        host: which host of the slice this process is. Default: `VTPU_HOST`, else 0.
        out: a file for the recording. Default: `VTPU_OUT`, else a temporary one.
        report: print the report when the process ends.
        values: what the host reads is computed within a budget (`"auto"`), always (`"cpu"`) or is
            zero (`"zeros"`). Default: `VTPU_VALUES`, else `"auto"`.
        values_budget: what one read may cost with `"auto"`: `"500GFLOP,32GiB,30s"`.
        unknown: what the host sees of a value that cannot be had: `"zeros"`, `"nan"`, `"error"`.
        pace: the program really waits for the slice. A function gives the seconds that one execution of
            the program of a name takes, or None for what the cost model says. Default: `VTPU_PACE`.
        host_speed: how many times as fast as this machine the slice's host computes, for the report.
            Default: `VTPU_HOST_SPEED`, else 1.

    Raises:
        vtpu.errors.VtpuError: see its message; for one, JAX runs already on another backend.
    """
    import os
    from dataclasses import replace
    from pathlib import Path

    importlib.import_module("jax")  # before jaxlib, whose log it quietens

    from vtpu.device.attach import attach as attach_session
    from vtpu.device.settings import UNKNOWN, VALUES, VALUES_BUDGET, read_settings

    given = {VALUES: values, VALUES_BUDGET: values_budget, UNKNOWN: unknown}
    settings = read_settings({**os.environ, **{k: v for k, v in given.items() if v is not None}})
    settings = replace(
        settings,
        slice=on or settings.slice,
        host=settings.host if host is None else host,
        out=Path(out) if out else settings.out,
        prints_report=report and settings.prints_report,
        pace=settings.pace if pace is None else bool(pace),
        host_speed=settings.host_speed if host_speed is None else host_speed,
    )
    _profile_by_report()
    at_end = _print_report if settings.prints_report else None
    return attach_session(settings, at_end, pace if callable(pace) else None)


def _profile_by_report() -> None:
    """From now on `jax.profiler` gets of the devices what our profiles show."""
    from vtpu.device.profiles import write_profiles_by

    write_profiles_by(_session_profile)


def _session_profile(recording: Recording, began_ns: int, began_unix_ns: int) -> bytes:
    from vtpu.report.profiles.recorded import session_profile

    return session_profile(recording, began_ns, began_unix_ns)


def _print_report(session: Session) -> None:
    import sys

    from vtpu.analysis.run.time import Timing
    from vtpu.recording.file import parse_recording
    from vtpu.report.terminal import report_recording

    path = session.recorder.path
    recording = parse_recording(session.recorder.read_back())
    timing = Timing(host_speed=session.host_speed)
    report_recording(recording, str(path) if path else None, None, sys.stderr, timing)
