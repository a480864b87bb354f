"""Replaying a million requests of memory: seconds of each part of `vtpu replay`.

    python benchmarks/replay.py [EVENTS]

The recording is generated: training steps with a few dozen live arrays of mixed sizes, some of which are
donated, beside caches whose arrays come and go in any order.
"""

import random
import sys
import time

import numpy as np

from vtpu.analysis.replay.allocators import choose_allocator
from vtpu.analysis.replay.replay import replay
from vtpu.analysis.replay.requests import requests_of
from vtpu.analysis.replay.summary import summarize_replay
from vtpu.hbm import AllocatorName
from vtpu.recording.events import EVENT_DTYPE, EventKind
from vtpu.recording.recording import (
    DeviceRecord,
    ProgramRecord,
    Recording,
    RunRecord,
    ShapeRecord,
    StackFrame,
)

LIMIT = 16_909_336_064  # of a v5e
SIZES = [512, 4096, 65536, 1 << 20, 3 << 20, 40 << 20]
LIVE = 200


def generate(count):
    """A run of about `count` events on one device."""
    chance = random.Random(0)
    rows, live, buffer = [], [], 0
    while len(rows) < count:
        rows.append((EventKind.EXECUTE, 1 << 20, 0, 1))
        for _ in range(chance.randrange(1, 5)):
            buffer += 1
            size = chance.choice(SIZES) * chance.randrange(1, 4)
            live.append((buffer, size))
            rows.append((EventKind.ALLOCATE, size, buffer, 1))
        while len(live) > LIVE or (live and chance.random() < 0.3):
            gone, size = live.pop(chance.randrange(len(live)))
            rows.append((EventKind.FREE, size, gone, 0))
    events = np.zeros(len(rows), EVENT_DTYPE)
    for name, column in zip(
        ("kind", "bytes", "subject", "program"), zip(*rows, strict=True), strict=True
    ):
        events[name] = column
    events["time_ns"] = np.arange(len(rows)) * 1000
    events["stack"] = 1 + events["subject"] % 20
    return recording(events)


def recording(events):
    run = RunRecord(
        slice="v5e:1x1", slice_asked="v5e-1", host=0, num_hosts=1,
        devices=(DeviceRecord(id=0, host=0, kind="TPU v5 lite"),), hbm_bytes=LIMIT,
        platform_version="", versions={}, command=(), folder="/", started_unix_s=0.0,
    )  # fmt: skip
    program = ProgramRecord(
        number=1, name="jit_step", key="", stack=1, device_ids=(0,), parameter_shapes=("f32[8]{0}",)
    )
    stacks = tuple((StackFrame("/train.py", "f", line),) for line in range(1, 21))
    shape = ShapeRecord(11, (8,), "{0}", 32, 512)
    return Recording(run=run, events=events, programs=(program,), stacks=stacks, shapes=(shape,))


def timed(what, function):
    began = time.perf_counter()
    result = function()
    print(f"{what:44} {time.perf_counter() - began:6.2f} s", flush=True)
    return result


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    run = generate(count)
    print(f"{len(run.events):,} events")
    requests = timed("requests of the device", lambda: requests_of(run, 0))
    for name in AllocatorName:
        choice = choose_allocator(run, name)
        timed(f"replay under {name}", lambda c=choice: replay(requests, c.make()))
    for variation in choose_allocator(run, AllocatorName.TPU).variations:
        timed(f"  {variation.what[:40]}", lambda v=variation: replay(requests, v.make()))
    choice = choose_allocator(run, AllocatorName.TPU)
    timed("all of vtpu replay but the report", lambda: summarize_replay(run, choice))


if __name__ == "__main__":
    main()
