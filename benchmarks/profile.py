"""What writing and reading a profile of 100,000 events costs.

    python benchmarks/profile.py

A training step whose layers are scanned (a dump of the tests, with its modelled time), executed on one
device until there are 100,000 events of operations, each with name, category, FLOPs, bytes, path and line.
"""

import gc
import time
from pathlib import Path

from vtpu.analysis.measured.summary import summarize_profile
from vtpu.analysis.timeline.device_timeline import (
    DeviceTimeline,
    Execution,
    TimedProgram,
    TimelineDevice,
)
from vtpu.chips import parse_slice
from vtpu.clock.machine import machine_of
from vtpu.clock.program import program_time
from vtpu.clock.torus import Position
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.xplane.reading import read_space
from vtpu.reading.xplane.writing import encode_space
from vtpu.report.profiles.perfetto import perfetto_trace
from vtpu.report.profiles.xspace import profile_space
from vtpu.units import format_bytes, format_seconds

EVENTS = 100_000
SLICE = "v5e-1"
DUMP = Path(__file__).parents[1] / "tests/analysis/dumps/scan_v5e.hlo.pb"


def main():
    run = training()
    space = report("timeline to planes", lambda: profile_space(run, 2 * EVENTS))
    count = sum(len(line.events) for plane in space.planes for line in plane.lines)
    data = report("planes to bytes", lambda: encode_space(space))
    print(f"{count:,} events, {format_bytes(len(data))}: {len(data) / count:.0f} bytes an event")
    report("both, which is writing", lambda: encode_space(profile_space(run, 2 * EVENTS)))
    trace = report("a trace of Perfetto", lambda: perfetto_trace(space))
    print(f"  {format_bytes(len(trace))}")
    read = report("reading it", lambda: read_space(data))
    assert read.space == space
    report("its tables", lambda: summarize_profile([read]))


def report(what, work, times=3):
    """The best of some times, and what `work` made."""
    took = []
    for _ in range(times):
        gc.collect()
        began = time.perf_counter()
        made = work()
        took.append(time.perf_counter() - began)
    print(f"{what}: {format_seconds(min(took))}")
    return made


def training():
    """A run of the dumped step until there are enough events."""
    data = DUMP.read_bytes()
    module = read_wrapped_module(data)
    time_of_step = program_time(
        module, machine_of(parse_slice(SLICE), {0: Position((0, 0, 0), 0, 0)})
    )
    program = TimedProgram(id=1, name=module.name, module=module, time=time_of_step, hlo=data)
    seconds = time_of_step.total.seconds
    one = profile_space(timeline(program, seconds, 1))
    in_one = sum(len(line.events) for line in one.planes[0].lines)
    return timeline(program, seconds, -(-EVENTS // in_one))


def timeline(program, seconds, count):
    return DeviceTimeline(
        began_unix_ns=0,
        host_name="host",
        slice=SLICE,
        devices=(TimelineDevice(id=0, kind="TPU v5 lite"),),
        programs={1: program},
        executions=tuple(
            Execution(
                number=n + 1,
                program=1,
                device=0,
                start_s=n * seconds,
                end_s=(n + 1) * seconds,
                step=n,
            )
            for n in range(count)
        ),
    )


main()
