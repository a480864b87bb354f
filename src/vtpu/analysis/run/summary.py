"""The summary of a run: everything the report at exit shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.failures import (
    MemoryFailure,
    UnsupportedCall,
    find_memory_failures,
    find_unsupported_calls,
)
from vtpu.analysis.run.memory import HbmSummary, summarize_hbm
from vtpu.analysis.run.programs import ProgramSummary, summarize_programs
from vtpu.analysis.run.time import TimeSummary, Timing, summarize_time
from vtpu.analysis.run.transfers import (
    FabricatedValues,
    TransferSummary,
    find_fabricated_values,
    summarize_transfers,
)
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording
from vtpu.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What ran, on which slice, as which host, with which releases.

    `wall_s` is null when the process did not end by itself. `covered_s`: the recording holds what
    happened up to then and not to the end; null when it holds all. `was_cut`: it has no end.
    """

    slice: str
    slice_asked: str
    device_kind: str
    host: int
    num_hosts: int
    num_devices: int
    num_local_devices: int
    hbm_bytes_per_device: int
    versions: dict[str, str]
    command: tuple[str, ...]
    folder: str
    started_unix_s: float
    wall_s: float | None
    covered_s: float | None
    exit_code: int | None
    compiler_starts: int | None
    num_events: int
    was_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesSummary:
    """What arrays contain: `mode` is `auto`, `cpu` or `zeros`. How many reads and callbacks the host
    made, how many reads were computed, how many executions that repeated and how long it took,
    and the most that contents took in memory and on disk. Null when the recording has no end.
    """

    mode: str
    reads: int
    computed_reads: int | None
    repeated_executions: int | None
    computed_s: float | None
    peak_memory_bytes: int | None
    peak_disk_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in tables.

    `other_recordings`: files of the other processes that one `vtpu run` led to; null where that is not
    known, as of a recording that is shown again. `time` is null where nobody asked for it.
    """

    run: RunFacts
    programs: tuple[ProgramSummary, ...]
    hbm: tuple[HbmSummary, ...]
    transfers: tuple[TransferSummary, ...]
    failures: tuple[MemoryFailure, ...]
    values: ValuesSummary
    fabricated_values: tuple[FabricatedValues, ...]
    unsupported_calls: tuple[UnsupportedCall, ...]
    problems: tuple[str, ...]
    other_recordings: tuple[str, ...] | None = None
    time: TimeSummary | None = None


def summarize(
    recording: Recording,
    other_recordings: tuple[str, ...] | None = None,
    timing: Timing | None = Timing(),  # noqa: B008, it is frozen
) -> RunSummary:
    """The summary of a recording, also of one that was cut. `other_recordings`: see there.

    `timing`: how its time is told; None leaves that out, which takes longest.
    """
    lines = LineFinder(recording)
    return RunSummary(
        run=run_facts(recording),
        programs=summarize_programs(recording, lines),
        hbm=summarize_hbm(recording, lines),
        transfers=summarize_transfers(recording, lines),
        failures=find_memory_failures(recording, lines),
        values=_summarize_values(recording),
        fabricated_values=find_fabricated_values(recording, lines),
        unsupported_calls=find_unsupported_calls(recording, lines),
        problems=problems_of(recording),
        other_recordings=other_recordings,
        time=summarize_time(recording, lines, timing) if timing else None,
    )


def run_facts(recording: Recording) -> RunFacts:
    """What ran, where."""
    run, end = recording.run, recording.end
    local = [d for d in run.devices if d.host == run.host]
    return RunFacts(
        slice=run.slice,
        slice_asked=run.slice_asked,
        device_kind=run.devices[0].kind if run.devices else "",
        host=run.host,
        num_hosts=run.num_hosts,
        num_devices=len(run.devices),
        num_local_devices=len(local),
        hbm_bytes_per_device=run.hbm_bytes,
        versions=run.versions,
        command=run.command,
        folder=run.folder,
        started_unix_s=run.started_unix_s,
        wall_s=end.wall_s if end else None,
        covered_s=_covered_s(recording),
        exit_code=recording.exit_code,
        compiler_starts=end.compiler_starts if end else None,
        num_events=len(recording.events),
        was_cut=end is None,
    )


def _summarize_values(recording: Recording) -> ValuesSummary:
    kinds = recording.events["kind"]
    done = recording.end.values if recording.end else None
    return ValuesSummary(
        mode=recording.run.values,
        reads=int(np.isin(kinds, (EventKind.DEVICE_TO_HOST, EventKind.CALLBACK)).sum()),
        computed_reads=done.reads if done else None,
        repeated_executions=done.executions if done else None,
        computed_s=done.seconds if done else None,
        peak_memory_bytes=done.peak_memory_bytes if done else None,
        peak_disk_bytes=done.peak_disk_bytes if done else None,
    )


def _covered_s(recording: Recording) -> float | None:
    """Until when a recording goes that does not go to the end."""
    if recording.end and not recording.end.stops_early:
        return None
    return int(recording.events["time_ns"].max()) / 1e9 if len(recording.events) else 0.0


def problems_of(recording: Recording) -> tuple[str, ...]:
    """What is wrong with a recording."""
    problems = list(recording.problems)
    if recording.end is None and not problems:
        problems.append(
            "the program ended without running Python's exit functions: it was killed, crashed or "
            "called os._exit"
        )
    if recording.end:
        problems += recording.end.problems
        if recording.end.dropped_events:
            problems.append(
                f"{counted(recording.end.dropped_events, 'event')} lost: the "
                "machine ran out of memory; the figures below are without them"
            )
    return tuple(problems)
