"""With pace the program really waits for the slice, and can do everything else meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from device.virtual_slice import Slice
from running import Bench
from vtpu.recording.file import load_recording

BEGIN = """
import sys, threading, time
import vtpu
SECONDS = {"jit_step": 0.05, "jit_long": 60.0}
vtpu.attach("v5e-1", pace=lambda name: SECONDS.get(name, 0.0), report=False, values="zeros")
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def step(x): return x + 1
@jax.jit
def long(x): return x * 2
x = step(jnp.ones((8, 128)))
x.block_until_ready()
long.lower(x).compile()
def took(f):
    began = time.perf_counter()
    f()
    print(time.perf_counter() - began)
"""
LOOPS = """
def loop(times, look):
    y = x
    for _ in range(times):
        y = step(y)
        look(y)
    y.block_until_ready()
took(lambda: loop(10, lambda y: None))
took(lambda: loop(10, lambda y: float(y[0, 0])))
took(lambda: loop(10, lambda y: y.block_until_ready()))
took(lambda: loop(10, lambda y: jax.device_get(y)))
took(lambda: loop(10, lambda y: time.sleep(0.03)))
took(lambda: loop(10, lambda y: (y.block_until_ready(), time.sleep(0.03))))
"""
AHEAD = """
took(lambda: [step(x) for _ in range(32)])
step(x).block_until_ready()
took(lambda: [step(x) for _ in range(42)])
"""
LOADER = """
import queue
batches = queue.Queue(2)
def load():
    while True:
        time.sleep({seconds})
        batches.put(jax.device_put(np.ones((8, 128), np.float32)))
threading.Thread(target=load, daemon=True).start()
def loop(times):
    for _ in range(times): step(batches.get()).block_until_ready()
loop(5)
took(lambda: loop(20))
"""
LOOKS = """
y = step(x)
print(y.is_ready())
looks = 0
while not y.is_ready(): looks += 1; time.sleep(0.001)
print(looks > 5, y.is_ready())
"""
GIL = """
counted = 0
def count():
    global counted
    while True: counted += 1; time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()
before = counted
for _ in range(40): y = step(x)  # more than are let in at once
y.block_until_ready()
print(counted - before > 100)
"""
TOKENS = """
show = jax.jit(lambda x: (jax.debug.callback(lambda v: None, x.sum()), x + 1)[1])
show(x), jax.effects_barrier()
SECONDS["jit__lambda"] = 0.05
took(lambda: (step(x), show(x), jax.effects_barrier()))
"""
FORK = """
import os, warnings
warnings.simplefilter("ignore")
y = long(x)
if (child := os.fork()) == 0:
    for _ in range(100): y = long(x)
    y.block_until_ready()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
WAITS = {
    "blocks": "y = long(x); print('waits', flush=True); y.block_until_ready()",
    "reads": "y = long(x); print('waits', flush=True); np.asarray(y)",
    "dispatches": "print('waits', flush=True)\nfor _ in range(40): long(x)",
}
REAL = """
import time
import jax, jax.numpy as jnp
@jax.jit
def step(x): return x @ x
x = step(jnp.zeros((16384, 16384), jnp.bfloat16))
x.block_until_ready()
times = []
for _ in range(10):
    began = time.perf_counter()
    x = step(x)
    x.block_until_ready()
    times.append(time.perf_counter() - began)
print(sorted(times)[5])
"""


def seconds(virtual: Slice, program: str, **more: str) -> list[float]:
    ended = virtual.run(BEGIN + program, **more)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return [float(line) for line in ended.stdout.split()]


def test_a_loop_takes_as_long_as_on_the_slice(virtual):
    free, reads, waits, gets, works, serial = seconds(virtual, LOOPS)
    for took in (free, reads, waits, gets, works):
        assert 0.5 <= took < 1.5
    assert 0.8 <= serial < 2.4  # 50 ms of the device and 30 ms of the host


def test_the_host_is_only_so_far_ahead(virtual):
    near, far = seconds(virtual, AHEAD)
    assert near < 0.4
    assert 0.5 <= far < 1.5  # ten of 50 ms


@pytest.mark.parametrize(("loads", "least"), [("0.02", 1.0), ("0.1", 1.9)])
def test_a_loader_hides_behind_the_device_or_bounds_it(virtual, loads, least):
    (took,) = seconds(virtual, LOADER.replace("{seconds}", loads))
    assert least <= took < 2 * least


def test_a_result_is_not_ready_before_its_time(virtual):
    ended = virtual.run(BEGIN + LOOKS)
    assert (ended.exit_code, ended.stdout) == (0, "False\nTrue True\n")


def test_other_threads_run_while_one_waits(virtual):
    ended = virtual.run(BEGIN + GIL)
    assert (ended.exit_code, ended.stdout) == (0, "True\n")


def test_effects_are_waited_for(virtual):
    (took,) = seconds(virtual, TOKENS)
    assert 0.05 <= took < 1.0


def test_in_a_forked_child_everything_is_ready(virtual):
    ended = virtual.run(BEGIN + FORK)
    assert (ended.exit_code, ended.stdout) == (0, "7\n")


def test_a_program_may_end_before_the_slice_is_done(virtual):
    began = time.monotonic()
    ended = virtual.run(BEGIN + "y = long(x)\nprint('done')\n")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "done\n", "")
    assert time.monotonic() - began < 50


@pytest.mark.parametrize("how", WAITS)
def test_ctrl_c_ends_a_wait(virtual, how):
    script = virtual.folder / "prog.py"
    script.write_text(BEGIN + WAITS[how])
    process = subprocess.Popen(
        [sys.executable, script],
        env=virtual.environment,
        cwd=virtual.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert error.splitlines()[-1] == "KeyboardInterrupt"


def test_the_times_of_the_program_are_those_of_the_report(bench: Bench):
    script = bench.script(REAL)
    ended = bench.vtpu("run", "--pace", "--values", "zeros", "--on", "v5e-1", script)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "The program waited for the slice (--pace)." in ended.report_text
    seen = float(ended.printed)
    shown = bench.vtpu("show", "run.vtpu", "--json", "report.json")
    assert shown.exit_code == 0
    step = json.loads((bench.folder / "report.json").read_text())["time"]["step"]
    told = step["steps"]["median_s"]
    assert step["steps"]["busy_s"] <= seen
    assert told == pytest.approx(seen, rel=0.3)
    assert load_recording(bench.folder / "run.vtpu").run.is_paced


def test_pace_of_another_host_is_refused(bench: Bench):
    script = bench.script("print('never')")
    ended = bench.vtpu("run", "--pace", "--host-speed", "2", script)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "vtpu show run.vtpu --host-speed 2" in ended.stderr


BAD_PACE = """
import jax.numpy as jnp, vtpu
def pace(name):
    raise KeyError(name)
vtpu.attach("v5e-1", pace=ANSWER, out="{out}", report=False)
import jax
jax.jit(lambda x: x @ x)(jnp.ones((8, 128, 128))).block_until_ready()
print("ended")
"""


@pytest.mark.parametrize(
    "answer", ["pace", "lambda name: float('nan')", "lambda name: -1", "lambda name: 'x'"]
)
def test_a_pace_that_is_no_time_is_noted_and_the_program_goes_on(bench: Bench, answer: str):
    out = bench.folder / "bad.vtpu"
    text = (
        BAD_PACE.replace("ANSWER", answer)
        .replace("{out}", str(out))
        .replace(', values="zeros"', "")
    )
    command = [sys.executable, bench.script(text)]
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=bench.folder, timeout=120
    )
    assert ended.stdout.startswith("ended\n"), ended.stderr
    assert ended.stderr == ""
    end = load_recording(out).end
    assert end is not None
    assert any("cost model" in problem for problem in end.problems)


def test_what_only_pace_needs_is_not_loaded_without_it():
    code = "import sys, vtpu.device.attach; print([m for m in sys.modules if 'vtpu.clock' in m])"
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
