"""The recording is written while the program runs, by a thread that the program does not notice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from device.virtual_slice import Slice
from vtpu.recording.events import EventKind, of_kind
from vtpu.recording.file import load_recording

BEGIN = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x * 2 + 1)
x = f(jnp.ones((8, 128)))
threads = threading.enumerate()
for _ in range(200): x = f(x)
time.sleep(2.5)
"""
ENDS = {
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit": "os._exit(0)",
    "abort": "os.abort()",
}
LOOP = """
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x * 2 + 1)
x = f(jnp.ones((8, 128)))
print("running", flush=True)
while True: x = f(x)
"""
FORKS = """
import os, warnings
import jax, jax.numpy as jnp
warnings.simplefilter("ignore")
f = jax.jit(lambda x: x * 2 + 1)
x = f(jnp.ones((8, 128)))
if (child := os.fork()) == 0:
    for _ in range(50_000): x = f(x)  # more than is ever kept of what nobody has written
    from vtpu.device import _core
    os._exit(3 if _core.drain_events() else 7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def calls(virtual: Slice) -> int:
    return len(of_kind(load_recording(virtual.folder / "run.vtpu").events, EventKind.EXECUTE))


@pytest.mark.parametrize("how", ENDS)
def test_all_but_the_last_second_is_there_after(virtual, how):
    virtual.run(BEGIN + ENDS[how], VTPU_OUT="run.vtpu")
    assert calls(virtual) >= 201


def test_the_program_sees_no_thread_of_ours(virtual):
    ended = virtual.run(BEGIN + "print(len(threads), threading.active_count())")
    assert (ended.stdout, ended.stderr) == ("1 1\n", "")


def test_a_forked_child_records_nothing_and_keeps_nothing(virtual):
    ended = virtual.run(FORKS, VTPU_OUT="run.vtpu")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "7\n", "")
    assert load_recording(virtual.folder / "run.vtpu").end
    assert calls(virtual) < 10


def test_an_interrupt_among_many_calls_ends_the_program_in_its_own_line(virtual):
    script = virtual.folder / "prog.py"
    script.write_text(LOOP)
    for wait_s in (0.3, 0.45, 0.6):
        with subprocess.Popen(
            [sys.executable, script],
            env=virtual.environment | {"VTPU_OUT": str(virtual.folder / "run.vtpu")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout
            process.stdout.readline()
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT
        assert "/vtpu/" not in err
        assert err.endswith("KeyboardInterrupt\n")
        assert load_recording(virtual.folder / "run.vtpu").end
