"""What the recording holds of the host's time: threads, their CPU time, waits, what is awaited."""

from __future__ import annotations

import numpy as np
import pytest

from vtpu.recording.events import EventKind, of_kind
from vtpu.recording.file import load_recording

WAITS = """
import jax, numpy as np
f = jax.jit(lambda x: x + 1)
x = f(np.ones((8, 128), np.float32))
x.is_ready()
y = f(x)
y.block_until_ready()
y.block_until_ready()
jax.block_until_ready([y, f(y), jax.device_put(np.ones(3), jax.devices()[1])])
"""
SHARDED_WAIT = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rows = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
x = jax.device_put(np.ones((8, 128), np.float32), rows)
jax.jit(lambda x: x + 1)(x).block_until_ready()
"""
AWAITED = """
import jax, numpy as np
f = jax.jit(lambda x, y: x + y)
a = jax.device_put(np.ones((8, 128), np.float32))  # transfer 1
b = jax.device_put(np.ones((8, 128), np.float32))  # transfer 2
c = f(b, a)  # execution 1
d = f(c, c)
e = jax.device_put(d, jax.devices()[1])  # transfer 3
f(e, e)
np.asarray(d), np.asarray(e), np.asarray(a)
"""
THREADS = """
import threading, time
import jax, numpy as np
f = jax.jit(lambda x: x + 1)
x = f(np.ones((8, 128), np.float32))
def work():
    for _ in range(3):
        end = time.thread_time() + 0.02
        while time.thread_time() < end: pass
        time.sleep(0.05)
        f(x)
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
COMPUTED = """
import jax, jax.numpy as jnp, numpy as np
x = jax.jit(lambda: jnp.ones((1500, 1500)))()
y = jax.jit(lambda x: x @ x)(x)
float(y[0, 0])
f = jax.jit(lambda x: x + 1)
f(x)
"""
CALLBACK = """
import time
import jax, jax.numpy as jnp
f = jax.jit(lambda x: (jax.debug.callback(lambda v: time.sleep(0.2), x.sum()), x)[1])
f(jnp.ones((8, 128)))
"""


@pytest.fixture
def events(virtual):
    """Runs a program and gives the events of its recording."""

    def run(program: str) -> np.ndarray:
        ended = virtual.run(program, VTPU_OUT="run.vtpu")
        assert (ended.exit_code, ended.stderr) == (0, "")
        return load_recording(virtual.folder / "run.vtpu").events

    return run


def test_a_wait_names_what_it_waits_for_once_and_a_look_is_none(events):
    waits = of_kind(events(WAITS), EventKind.WAIT)
    awaited = list(zip(waits["awaits_execution"], waits["awaits_transfer"], strict=True))
    assert awaited == [(2, 0), (3, 0), (0, 2)]


def test_a_wait_for_all_parts_of_an_array_is_one(events):
    waits = of_kind(events(SHARDED_WAIT), EventKind.WAIT)
    assert waits["awaits_execution"].tolist() == [1]


def test_what_fills_the_arguments_is_awaited(events):
    found = events(AWAITED)
    executions = of_kind(found, EventKind.EXECUTE)
    assert executions["awaits_transfer"].tolist() == [2, 0, 3]
    assert executions["awaits_execution"].tolist() == [0, 0, 0]
    copies = of_kind(found, EventKind.COPY)
    assert (copies["awaits_execution"].tolist(), copies["awaits_transfer"].tolist()) == ([2], [0])
    reads = of_kind(found, EventKind.DEVICE_TO_HOST)
    awaited = zip(reads["awaits_execution"], reads["awaits_transfer"], strict=True)
    assert list(awaited) == [(2, 0), (0, 3), (0, 1)]


def test_the_cpu_time_of_each_thread_is_its_own(events):
    calls = of_kind(events(THREADS), EventKind.EXECUTE)
    first, *others = np.unique(calls["thread"])
    assert len(others) == 2
    assert (calls["cpu_ns"][calls["thread"] == first] > 0).all()
    for thread in others:
        mine = calls[calls["thread"] == thread]
        cpu, wall = np.diff(mine["cpu_ns"]), np.diff(mine["time_ns"])
        assert (cpu >= 20e6).all()
        assert (wall - cpu >= 40e6).all()  # it slept 50 ms


def test_memory_comes_and_goes_on_no_thread(events):
    found = events(THREADS)
    moved = found[np.isin(found["kind"], (EventKind.ALLOCATE, EventKind.FREE))]
    assert not moved["thread"].any()
    assert (moved["cpu_ns"] == -1).all()


def test_compiling_and_computing_are_a_pause_without_cpu_time(events):
    found = events(COMPUTED)
    pauses = of_kind(found, EventKind.PAUSE)
    begins, ends = pauses["time_ns"], pauses["time_ns"] + pauses["host_ns"]
    assert (begins[1:] >= ends[:-1]).all()
    for compiled in of_kind(found, EventKind.COMPILE):
        begin, end = compiled["time_ns"], compiled["time_ns"] + compiled["host_ns"]
        assert ((begins <= begin) & (end <= ends)).any()
    (read,) = of_kind(found, EventKind.DEVICE_TO_HOST)
    before = pauses[ends <= read["time_ns"]][-1]
    assert before["host_ns"] > 5e6  # the product was computed
    assert before["cpu_ns"] <= read["cpu_ns"] < before["cpu_ns"] + before["host_ns"]


def test_a_host_callback_is_no_pause(events):
    found = events(CALLBACK)
    (call,) = of_kind(found, EventKind.CALLBACK)
    assert call["host_ns"] >= 200e6
    pauses = of_kind(found, EventKind.PAUSE)
    begins, ends = pauses["time_ns"], pauses["time_ns"] + pauses["host_ns"]
    assert ((ends <= call["time_ns"]) | (begins >= call["time_ns"] + call["host_ns"])).all()
