"""A compiler that dies or hangs is an exception; the program goes on."""

from __future__ import annotations

import uuid

import pytest

PROGRAM = """
import os, signal, sys, threading
import jax, jax.numpy as jnp
from vtpu.device.attach import current_session

salt, fault = int(sys.argv[1]) % 2**23, sys.argv[2]
x = jnp.ones(3)
jax.jit(lambda x: x * 2 + salt)(x)
worker = current_session().compiler.pool._idle[0].process.pid
os.kill(worker, signal.SIGSTOP)
if fault != "hangs":
    def end():
        os.kill(worker, getattr(signal, fault))
        os.kill(worker, signal.SIGCONT)
    threading.Timer(0.3, end).start()
try:
    for i in range(3, 9):  # libtpu may answer once more while it writes down its crash
        jax.jit(lambda x: x * i + salt)(x)
except jax.errors.JaxRuntimeError as error:
    print(error)
print(jax.jit(lambda x: x * 10 + salt)(x).shape)
"""
IDLE = """
import os, signal, sys, time
import jax, jax.numpy as jnp
from vtpu.device.attach import current_session

salt = int(sys.argv[1]) % 2**23
x = jnp.ones(3)
jax.jit(lambda x: x * 2 + salt)(x)
os.kill(current_session().compiler.pool._idle[0].process.pid, signal.SIGKILL)
time.sleep(0.2)
print(jax.jit(lambda x: x * 3 + salt)(x).shape)
"""


def fault_of(virtual, fault, **more):
    ended = virtual.run(PROGRAM, str(uuid.uuid4().int), fault, **more)
    assert (ended.exit_code, ended.stderr) == (0, "")
    message, _, after = ended.stdout.rstrip("\n").rpartition("\n")
    assert after == "(3,)"
    return message


@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT", "SIGSEGV"])
def test_a_killed_compiler_is_an_exception_and_the_next_program_compiles(virtual, name):
    message = fault_of(virtual, name)
    assert f"The TPU compiler (libtpu) ended by signal {name} (compiling jit" in message


def test_a_compiler_that_died_while_idle_is_replaced_unnoticed(virtual):
    ended = virtual.run(IDLE, str(uuid.uuid4().int))
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "(3,)\n", "")


def test_a_compiler_that_hangs_is_ended_after_the_limit_and_the_next_program_compiles(virtual):
    message = fault_of(virtual, "hangs", VTPU_COMPILE_TIMEOUT="2")
    assert "did not answer within 2 s (compiling jit" in message
    assert "VTPU_COMPILE_TIMEOUT" in message
