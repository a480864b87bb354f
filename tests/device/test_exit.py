"""The end of a program: its own exit code, nothing on standard error, whatever is still alive."""

from __future__ import annotations

import pytest

from vtpu.recording.file import load_recording

BEGIN = """
import atexit, os, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: x * 2 + 1)
x = f(jnp.ones((8, 128)))
"""
ALIVE = {
    "arrays and functions in a cycle": """
class Node: pass
node = Node()
node.self, node.array, node.function = node, f(x), jax.jit(lambda x: x + 3)
node.function(x)
sys.node = node
""",
    "a suspended generator": """
def generate():
    y = f(x)
    while True:
        yield y
steps = generate()
next(steps)
""",
    "threads that execute": """
def loop():
    while True: f(x)
for _ in range(3): threading.Thread(target=loop, daemon=True).start()
time.sleep(0.2)
""",
    "threads that read and write": """
def loop():
    while True: np.asarray(f(x)); jax.device_put(np.ones(3))
for _ in range(3): threading.Thread(target=loop, daemon=True).start()
time.sleep(0.2)
""",
    "a thread that ends later": """
def work():
    time.sleep(0.3)
    f(x).block_until_ready()
threading.Thread(target=work).start()
""",
    "a function at exit that compiles": """
atexit.register(lambda: jax.jit(lambda x: x - 7)(x))
""",
    "an open trace": """
import tempfile
jax.profiler.start_trace(tempfile.mkdtemp())
f(x)
""",
}
WAITS = """
import atexit, threading
asked = threading.Event()
def wait():
    asked.set()
    thread.join()
    print("joined")
atexit.register(wait)  # before JAX is there, so it runs behind the end of the recording
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x + 1)
x = f(jnp.ones(3))
def work():
    asked.wait()
    for _ in range(3): f(x)
thread = threading.Thread(target=work, daemon=True)
thread.start()
"""


@pytest.mark.parametrize("what", ALIVE)
def test_a_program_ends_cleanly_while_alive_is(virtual, what):
    ended = virtual.run(BEGIN + ALIVE[what] + "sys.exit(3)", VTPU_OUT="run.vtpu")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (3, "", "")
    assert load_recording(virtual.folder / "run.vtpu").end


def test_an_exception_ends_a_program_as_python_ends_it(virtual):
    ended = virtual.run(BEGIN + "raise ValueError('no')")
    assert ended.exit_code == 1
    assert ended.stderr.endswith("ValueError: no\n")


def test_a_recording_without_room_on_the_disk_does_not_end_the_program(virtual):
    ended = virtual.run(BEGIN + "print(x.shape)", VTPU_OUT="/dev/full/run.vtpu")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "(8, 128)\n", "")


def test_a_function_at_exit_may_wait_for_a_thread_that_executes(virtual):
    ended = virtual.run(WAITS)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "joined\n", "")
