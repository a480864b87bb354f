"""What the virtual clock costs per execution: live with --pace, and after the run from its recording.

    python benchmarks/virtual_clock.py

Live: CPU time of a cached execution of one array on one device, without and with pace, and their difference.
Afterwards: CPU time of putting a recorded run on the clock, per execution, and of the whole summary of its
time (three passes, for the band). Medians.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vtpu.analysis.run.time import Timing, summarize_time
from vtpu.analysis.run.virtual_clock import run_on_clock
from vtpu.analysis.source_lines import LineFinder
from vtpu.analysis.time.programs import ProgramTimes
from vtpu.recording.file import load_recording

CALLS = 20_000
REPEATS = 7

CHILD = """
import json, sys, time
import jax, numpy as np

calls, repeats = json.loads(sys.argv[1])
f = jax.jit(lambda x: x + 1)
x = jax.device_put(np.ones((8, 128), np.float32))
jax.block_until_ready(f(x))
times = []
for _ in range(repeats):
    began = time.thread_time()
    for _ in range(calls):
        y = f(x)
    times.append((time.thread_time() - began) / calls * 1e6)
    y.block_until_ready()
print(json.dumps(times))
"""


def live(pace, out=""):
    """Microseconds of CPU time per execution."""
    environment = {"JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-1", "VTPU_REPORT": "off"}
    environment |= {"VTPU_PACE": pace, "VTPU_OUT": out, "VTPU_VALUES": "zeros"}
    command = [sys.executable, "-c", CHILD, json.dumps((CALLS, REPEATS))]
    ended = subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return statistics.median(json.loads(ended.stdout))


def afterwards(path):
    """Microseconds of CPU time per execution: one pass of the clock, and the summary of time."""
    recording = load_recording(path)
    durations, lines = ProgramTimes(recording), LineFinder(recording)
    executions = CALLS * REPEATS

    def cost(work):
        began = time.process_time()
        work()
        return (time.process_time() - began) / executions * 1e6

    return (
        statistics.median(cost(lambda: run_on_clock(recording, durations)) for _ in range(3)),
        cost(lambda: summarize_time(recording, lines, Timing())),
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.vtpu"
        without = statistics.median(live("off", str(path)) for _ in range(3))
        paced = statistics.median(live("on") for _ in range(3))
        print(
            f"an execution {without:.1f} us, with pace {paced:.1f} us: "
            f"the clock takes {paced - without:.1f} us"
        )
        once, whole = afterwards(path)
        print(
            f"afterwards: {once:.1f} us per execution on the clock, {whole:.1f} us for its summary"
        )


if __name__ == "__main__":
    main()
