"""Programs that start further processes."""

from __future__ import annotations

import uuid

import pytest

from vtpu.recording.file import load_recording

FORKS = """
import multiprocessing, warnings
import jax, jax.numpy as jnp, numpy as np
warnings.simplefilter("ignore")  # JAX's own, about forks
x = jnp.ones((8, 128))
def work(i):
    global x
    x = None  # an array of the parent's ends in the child
    return int(np.arange(i).sum())
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(work, range(6)))
print(jax.jit(lambda x: x * 11.5)(x).shape)
"""
BUSY_FORKS = """
import os, threading, warnings
import jax, jax.numpy as jnp, numpy as np
warnings.simplefilter("ignore")
f, x, device = jax.jit(lambda x: x + 1), jnp.ones(3), jax.devices()[0]
def loop():
    while True: np.asarray(f(x))
threading.Thread(target=loop, daemon=True).start()
for _ in range(50):
    if (child := os.fork()) == 0:
        # Not `del x`: a lock of jaxlib's own, that the thread may hold, would never open here.
        os._exit(7 if device.memory_stats()["bytes_in_use"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
FORKS_AND_EXITS = """
import os, sys, threading, warnings
import jax, jax.numpy as jnp
warnings.simplefilter("ignore")
f = jax.jit(lambda x: x + 1)
x = f(jnp.ones(3))
salt = int(sys.argv[1]) % 2**23
def compile():
    jax.jit(lambda x: x * 3 + salt)(x)
thread = threading.Thread(target=compile)
if "busy" in sys.argv:
    thread.start()
if (child := os.fork()) == 0:
    if "uses" in sys.argv:
        print(f(x).shape, flush=True)  # compiling needs threads that jaxlib has not here
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SPAWNS = """
import multiprocessing
def work(i):
    import jax.numpy as jnp
    return jnp.ones(i + 1).shape
if __name__ == "__main__":
    import jax.numpy as jnp
    x = jnp.ones(3)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, range(3)))
    print(x.shape)
"""


def test_forked_children_leave_the_recording_and_the_compiler_alone(virtual):
    ended = virtual.run(FORKS, VTPU_OUT="run.vtpu")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "[0, 0, 1, 3, 6, 10]\n(8, 128)\n"
    recording = load_recording(virtual.folder / "run.vtpu")
    assert recording.end
    assert not recording.problems
    assert not list(virtual.folder.glob("run-*.vtpu"))


def test_a_fork_while_threads_execute_finds_the_core_usable(virtual):
    ended = virtual.run(BUSY_FORKS)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("how", [[], ["uses"], ["busy"]])
def test_a_forked_child_ends_with_its_own_exit_code(virtual, how):
    ended = virtual.run(FORKS_AND_EXITS, str(uuid.uuid4().int), *how)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == ("(3,)\n3\n" if "uses" in how else "3\n")


def test_spawned_children_have_recordings_of_their_own(virtual):
    ended = virtual.run(SPAWNS, VTPU_OUT="run.vtpu")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "[(1,), (2,), (3,)]\n(3,)\n"
    for name in ("run.vtpu", "run-2.vtpu"):
        assert load_recording(virtual.folder / name).programs
