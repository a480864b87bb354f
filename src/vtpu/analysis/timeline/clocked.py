"""What the virtual clock says of a recording, as a timeline: devices, links, the host's threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vtpu.analysis.run.virtual_clock import Doing, Durations, VirtualRun, run_on_clock
from vtpu.analysis.source_lines import LineFinder
from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    Execution,
    HostSpan,
    HostWork,
    LinkTransfer,
)
from vtpu.analysis.timeline.times import Times
from vtpu.clock.program_time import Estimate
from vtpu.evidence import Basis
from vtpu.recording.recording import Recording
from vtpu.units import counted, format_bytes

_NS = 1e9
_DOING = {
    Doing.WORKING: HostWork.WORK,
    Doing.BLOCKED: HostWork.BLOCKED,
    Doing.WAITING: HostWork.WAIT,
    Doing.QUEUEING: HostWork.QUEUE,
}


def run_in_time(
    recording: Recording,
    times: Times,
    whole: DeviceTimeline,
    host_speed: float,
    began_ns: int | None = None,
) -> DeviceTimeline:
    """`whole` with what happened when on the slice.

    Args:
        recording: what happened.
        times: what an execution of each program takes.
        whole: what the timeline is of.
        host_speed: how much faster the slice's host computes than this machine.
        began_ns: only what was asked for from then on, on the recording's clock. The first launch then
            stands where the host made it, so that this goes with what it did on this machine.
    """
    records = {p.number: p for p in recording.programs}

    def durations(number: int) -> Estimate | None:
        time = times(records[number]) if number in records else None
        return time.total if time else None

    run = run_on_clock(recording, durations, host_speed)
    shown = _Shown(recording, run, durations, began_ns)
    return replace(
        whole,
        executions=tuple(shown.executions()),
        transfers=tuple(shown.transfers()),
        host=tuple(shown.launches()) + tuple(shown.stretches()),
        notes=(*whole.notes, *_notes(run)),
    )


class _Shown:
    """The part of a run that is shown, in seconds from its begin."""

    def __init__(
        self,
        recording: Recording,
        run: VirtualRun,
        durations: Durations,
        began_ns: int | None,
    ) -> None:
        self._recording = recording
        self._run = run
        self._durations = durations
        asked = recording.events["time_ns"]
        self._first = 0 if began_ns is None else int(np.searchsorted(asked, began_ns))
        self._executions = run.executions[run.executions["event"] >= self._first]
        self._origin_ns = 0
        if began_ns is not None and len(self._executions):
            first = self._executions[0]
            here = int(asked[first["event"]]) - began_ns
            self._origin_ns = int(first["asked_ns"]) - here

    def executions(self) -> Iterator[Execution]:
        numbers = self._recording.events["subject"]
        for row in self._executions:
            device = int(row["device"])
            program = int(row["program"])
            start, time = self._seconds(row["begin_ns"]), self._durations(program)
            for each in self._run.devices_of(program) if device < 0 else (device,):
                yield Execution(
                    number=int(numbers[row["event"]]),
                    program=program,
                    device=each,
                    start_s=start,
                    end_s=start
                    + (time.seconds if time else 0.0),  # the clock has whole nanoseconds
                    basis=Basis.MODELLED if time else None,
                )

    def transfers(self) -> Iterator[LinkTransfer]:
        for row in self._run.transfers[self._run.transfers["event"] >= self._first]:
            yield LinkTransfer(
                device=int(row["device"]),
                to_device=not row["to_host"],
                start_s=self._seconds(row["begin_ns"]),
                end_s=self._seconds(row["end_ns"]),
                bytes=max(0, int(row["bytes"])),
            )

    def launches(self) -> Iterator[HostSpan]:
        """The moments in which the host launched executions."""
        lines = LineFinder(self._recording)
        names = {p.number: p.name for p in self._recording.programs}
        events = self._recording.events
        for row in self._executions:
            event = int(row["event"])
            line = lines.line(int(events["stack"][event]))
            asked = self._seconds(row["asked_ns"])
            yield HostSpan(
                work=HostWork.EXECUTE,
                name=names.get(int(row["program"]), ""),
                start_s=asked,
                end_s=asked,
                line=str(line) if line.line else "",
                execution=int(events["subject"][event]),
                thread=int(row["thread"]),
            )

    def stretches(self) -> Iterator[HostSpan]:
        """What the host's threads did."""
        for row in self._run.stretches:
            yield HostSpan(
                work=_DOING[Doing(row["doing"])],
                start_s=self._seconds(row["begin_ns"]),
                end_s=self._seconds(row["end_ns"]),
                thread=int(row["thread"]),
            )

    def _seconds(self, time_ns: np.integer) -> float:
        return max(0, int(time_ns) - self._origin_ns) / _NS


def _notes(run: VirtualRun) -> Iterator[str]:
    """What the times do not have."""
    if run.untimed_bytes:
        yield (
            f"{format_bytes(run.untimed_bytes)} crossed a link to the host whose rate is not known: "
            "they took no time"
        )
    if run.between_devices:
        yield f"{counted(run.between_devices, 'transfer')} from device to device took no time"
