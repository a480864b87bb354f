"""Ctrl-C while something is compiled; the exit code that it leads to."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid

import pytest

from device.virtual_slice import Slice
from vtpu.recording.file import load_recording

# The compiler is stopped, so that a compile never ends.
PROGRAM = """
import os, signal, sys
import jax, jax.numpy as jnp
from vtpu.device.attach import current_session

salt = int(sys.argv[1]) % 2**23
x = jnp.ones(3)
jax.jit(lambda x: x * 2 + salt)(x)
os.kill(current_session().compiler.pool._idle[0].process.pid, signal.SIGSTOP)
print("compiling", flush=True)
try:
    jax.jit(lambda x: x * 3 + salt)(x)
except KeyboardInterrupt:
    if "catch" not in sys.argv:
        raise
print(jax.jit(lambda x: x * 4 + salt)(x).shape)
"""


def interrupt(virtual: Slice, *arguments: str, **more: str) -> tuple[int, str, str, float]:
    script = virtual.folder / "prog.py"
    script.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, script, str(uuid.uuid4().int), *arguments],
        env={**virtual.environment, "VTPU_OUT": str(virtual.folder / "run.vtpu"), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "compiling\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err, time.monotonic() - began


def test_ctrl_c_during_a_compile_ends_the_program_within_a_second(virtual):
    code, out, err, seconds = interrupt(virtual)
    assert code == -signal.SIGINT
    assert out == ""
    assert "\nKeyboardInterrupt" in err
    assert seconds < 1 + 1  # the second one for a busy machine


def test_who_catches_it_goes_on_with_the_next_program(virtual):
    code, out, err, _ = interrupt(virtual, "catch")
    assert (code, out, err) == (0, "(3,)\n", "")


@pytest.mark.parametrize("arguments", [[], ["catch"]])
def test_the_program_that_was_interrupted_is_recorded(virtual, arguments):
    interrupt(virtual, *arguments)
    programs = load_recording(virtual.folder / "run.vtpu").programs
    (failed,) = (p for p in programs if p.error)
    assert (failed.name, failed.error) == ("jit__lambda", "interrupted")
    assert failed.stack


def test_the_report_at_exit_leaves_the_exit_code_alone(virtual):
    code, _, err, _ = interrupt(virtual, VTPU_REPORT="on")
    assert code == -signal.SIGINT
    assert "vtpu report" in err
