"""What a program measures that reads the clock before the devices are done.

A wait for a result has no stack in a recording, for it happens without the interpreter's lock. Where one
lies near the executions that are measured, the text of the program decides whether it is between the
readings of the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.virtual_clock import Doing, VirtualRun
from vtpu.analysis.source.files import SourceFiles
from vtpu.analysis.source.timings import Timing, called_between, timings_in
from vtpu.analysis.source_lines import UserLines
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

_NS = 1e9
_READS = (EventKind.DEVICE_TO_HOST, EventKind.CALLBACK)
_WAIT = "block_until_ready"
_UNSEEN = "effects_barrier"  # no event tells of it


@dataclass(frozen=True, slots=True, kw_only=True)
class UnawaitedTiming:
    """A timing between whose readings work is dispatched and nothing waits for it.

    `executions` of `programs` take `device_s` on a device; the host needed `host_s` to dispatch them, which
    is what the program takes for their time. `last_stack` is that of the last one.
    """

    timing: Timing
    executions: int
    programs: tuple[int, ...]
    device_s: float
    host_s: float
    last_stack: int


def unawaited_timings(
    recording: Recording, run: VirtualRun, files: SourceFiles
) -> Iterator[UnawaitedTiming]:
    """The timings in the user's files between which executions are dispatched and not waited for."""
    events = recording.events
    is_execution = events["kind"] == EventKind.EXECUTE
    executions = np.unique(events["stack"][is_execution]).tolist()
    for timing in _timings(recording, executions, files):
        stacks = _stacks_inside(recording, timing)
        inside = np.isin(events["stack"], stacks)
        measured = np.flatnonzero(inside & is_execution)
        is_read = (inside & np.isin(events["kind"], _READS)).any()
        if len(measured) and not is_read and not _waits(recording, timing, measured, files):
            yield _measured(recording, run, timing, inside)


def _timings(recording: Recording, stacks: list[int], files: SourceFiles) -> Iterator[Timing]:
    lines = UserLines(recording.run.library_folders)
    names = {f.file for number in stacks for f in recording.stack(number)}
    for name in sorted(names):
        file = None if lines.is_library(name) else files.get(name)
        yield from timings_in(file) if file else ()


def _stacks_inside(recording: Recording, timing: Timing) -> list[int]:
    """The stacks that go through a line between the two readings, the last one included."""
    return [
        number
        for number, stack in enumerate(recording.stacks, 1)
        if any(f.file == timing.file and timing.begin < f.line <= timing.end for f in stack)
    ]


def _waits(recording: Recording, timing: Timing, measured: np.ndarray, files: SourceFiles) -> bool:
    """Whether something between the two readings waits for the executions `measured`, or may do so."""
    between = _text_between(recording, timing, measured, files)
    if _WAIT in between or _UNSEEN in between:
        return True
    if not _has_wait_near(recording, measured):
        return False
    file = files.get(timing.file)  # a wait that stands elsewhere in the file explains it
    return file is None or _WAIT not in file.text


def _has_wait_near(recording: Recording, measured: np.ndarray) -> bool:
    """Whether there is a wait from the first of some events to the next one with a stack of its own."""
    events = recording.events[measured[0] :]
    behind = np.flatnonzero(events["stack"][measured[-1] - measured[0] + 1 :])
    until = measured[-1] - measured[0] + 1 + (behind[0] if len(behind) else len(events))
    return bool((events["kind"][:until] == EventKind.WAIT).any())


def _text_between(
    recording: Recording, timing: Timing, measured: np.ndarray, files: SourceFiles
) -> str:
    """The lines between the two readings, and the functions that these call and in which they end up."""
    file = files.get(timing.file)
    if file is None:
        return ""
    texts = [file.line(n) for n in range(timing.begin, timing.end + 1)]
    texts += [file.function_text(name) for name in called_between(file, timing.begin, timing.end)]
    for number in np.unique(recording.events["stack"][measured]).tolist():
        for frame in recording.stack(number):
            if frame.file == timing.file and timing.begin < frame.line <= timing.end:
                break
            called = files.get(frame.file)
            texts.append(called.function_text(frame.function) if called else "")
    return "\n".join(texts)


def _measured(
    recording: Recording, run: VirtualRun, timing: Timing, inside: np.ndarray
) -> UnawaitedTiming:
    executions = run.executions[inside[run.executions["event"]]]
    one_device = executions["device"] <= max(0, executions["device"].min(initial=0))
    lengths = (executions["end_ns"] - executions["begin_ns"])[one_device]
    stretches = run.stretches[inside[run.stretches["event"]]]
    if timing.is_each_time:  # what the host did before its first call may be outside
        stretches = stretches[stretches["doing"] == Doing.QUEUEING]
    last = executions["event"][-1] if len(executions) else 0
    return UnawaitedTiming(
        timing=timing,
        executions=len(lengths),
        programs=tuple(np.unique(executions["program"]).tolist()),
        device_s=float(lengths.sum()) / _NS,
        host_s=float((stretches["end_ns"] - stretches["begin_ns"]).sum()) / _NS,
        last_stack=int(recording.events["stack"][last]),
    )
