"""`vtpu check` as people use it: exit codes, what is printed where, JSON that adds up."""

from __future__ import annotations

import json
import re

import pytest

PROGRAM = """
import os
import functools, typing
import jax, jax.numpy as jnp

S = jax.ShapeDtypeStruct
print("imported")

@jax.jit
def step(w, x):
    print("traced")
    return jnp.tanh(x @ w) @ w.T

def abstract_args():
    return S((512, 512), jnp.float32), S((64, 512), jnp.float32)

def huge(x):
    return x + 1

huge_args = (S((65536, 65536), jnp.float32),)

class Model:
    class Inner:
        @staticmethod
        def step(x):
            return x + 1

one_array = (S((8, 128), jnp.float32),)

def named(x, *, scale):
    return x * scale

named_args = (one_array, {"scale": one_array[0]})
by_name = {"x": one_array[0], "scale": one_array[0]}

@jax.jit
def two_trees(batch, params):
    return batch[0] @ params["w"] + batch[1]

two_trees_args = ((S((8, 128), jnp.float32), S((8, 128), jnp.float32)), {"w": S((128, 128), jnp.float32)})

class State(typing.NamedTuple):
    params: jax.ShapeDtypeStruct
    momentum: jax.ShapeDtypeStruct

def one_state(state):
    return state.params + state.momentum

one_state_args = State(S((8, 128), jnp.float32), S((8, 128), jnp.float32))

@functools.partial(jax.jit, static_argnums=1)
def repeated(x, times):
    return jnp.tile(x, (times, 1))

repeated_args = (one_array[0], 3)
halved = functools.partial(named, scale=0.5)

def no_arrays():
    return jnp.arange(4096)

no_arrays_args = ()

if __name__ == "__main__":
    raise SystemExit("ran as a script")
"""


@pytest.fixture
def program(bench):
    (bench.folder / "prog.py").write_text(PROGRAM)
    return bench


def as_json(bench, *arguments, on="v5e:1x1"):
    ended = bench.vtpu("check", *arguments, "--on", on, "--json", "-")
    return ended, json.loads(ended.stdout)


def check_sums(found):
    """The parts of every memory are the whole, at the peak and over all."""
    for space in found["spaces"]:
        assert sum(space["by_kind"].values()) == space["total_bytes"]
        assert space["peak_bytes"] + space["free_at_peak_bytes"] == space["total_bytes"]
        for group in ("role", "layer", "line", "dtype"):
            groups = space[f"at_peak_by_{group}"]
            assert sum(g["bytes"] for g in groups) == space["peak_bytes"]
        alive = [
            b["bytes"] for b in space["buffers"] if b["start"] <= space["peak_position"] <= b["end"]
        ]
        assert sum(alive) == space["peak_bytes"] == max((v for _, v in space["curve"]), default=0)


def hbm(found):
    return next(s for s in found["spaces"] if s["name"] == "HBM")


def test_what_fits_ends_with_zero_and_says_where_the_bytes_go(program):
    ended = program.vtpu("check", "prog:step", "--on", "v5e:1x1")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("imported\ntraced\nvtpu check\n")
    assert re.search(r"^  fits +yes$", ended.stdout, re.MULTILINE)
    assert "prog.py:12" in ended.stdout
    assert {path.name for path in program.folder.iterdir()} == {"__pycache__", "prog.py"}


def test_what_does_not_fit_ends_with_one_and_says_by_how_much(program):
    ended = program.vtpu("check", "prog.py:huge", "--on", "v5e:1x1")
    assert (ended.exit_code, ended.stderr) == (1, "")
    assert "over by       16.25 GiB" in ended.stdout


def test_the_json_has_exact_integers_that_add_up(program):
    ended, found = as_json(program, "prog:step")
    assert (ended.exit_code, ended.stderr) == (0, "imported\ntraced\n")
    check_sums(found)
    sizes = {"argument": 512 * 512 * 4 + 64 * 512 * 4, "output": 64 * 512 * 4}
    assert sizes.items() <= hbm(found)["by_kind"].items()
    assert found["need_bytes"] == hbm(found)["total_bytes"]


def test_a_program_that_does_not_fit_has_json_that_adds_up(program):
    ended, found = as_json(program, "prog:huge")
    assert ended.exit_code == 1
    check_sums(found)
    assert found["fits"] is False
    assert found["need_bytes"] == 2 * 65536**2 * 4 > found["limit_bytes"]


@pytest.mark.parametrize(
    ("target", "arguments", "argument_bytes"),
    [
        ("prog:Model.Inner.step", "one_array", 4096),
        ("prog:named", None, 4096 + 4096),
        ("prog:named", "prog:by_name", 4096 + 4096),
        ("prog.py:repeated", None, 4096),
        ("prog:two_trees", None, 2 * 4096 + 65536),
        ("prog:one_state", None, 4096 + 4096),
        ("prog:halved", "one_array", 4096),
        ("prog:no_arrays", None, None),
    ],
)
def test_functions_of_every_form(program, target, arguments, argument_bytes):
    more = ["--args", arguments] if arguments else []
    ended, found = as_json(program, target, *more)
    assert ended.exit_code == 0, ended.stderr
    assert hbm(found)["by_kind"].get("argument") == argument_bytes


def test_json_to_a_file_comes_beside_the_report(program):
    ended = program.vtpu("check", "prog:step", "--on", "v5e:1x1", "--json", "found.json")
    assert ended.exit_code == 0
    assert "vtpu check\n" in ended.stdout
    assert json.loads((program.folder / "found.json").read_text())["fits"] is True


MESH = """
import jax, jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
w = jax.ShapeDtypeStruct((256, 512), jnp.float32, sharding=NamedSharding(mesh, P(None, "model")))
x = jax.ShapeDtypeStruct((64, 256), jnp.float32, sharding=NamedSharding(mesh, P("data", None)))
args = (w, x)

@jax.jit
def step(w, x):
    return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("data", "model")))
"""


def test_a_mesh_of_the_slice_inside_of_the_function(bench):
    (bench.folder / "prog.py").write_text(MESH)
    ended, found = as_json(bench, "prog:step", on="v5e-8")
    assert ended.exit_code == 0, ended.stderr
    assert found["num_devices"] == 8
    assert hbm(found)["by_kind"]["argument"] == 256 * 256 * 4 + 16 * 256 * 4
    assert hbm(found)["by_kind"]["output"] == 16 * 256 * 4


FAULT = """
import os, signal, threading, uuid
import jax, jax.numpy as jnp
from vtpu.device.attach import current_session

salt = uuid.uuid4().int % 2**23
jax.jit(lambda x: x * 2 + salt)(jnp.ones(3))

def step(x):
    worker = current_session().compiler.pool._idle[0].process.pid
    os.kill(worker, signal.SIGSTOP)
    if "VTPU_COMPILE_TIMEOUT" not in os.environ:
        threading.Timer(0.3, os.kill, (worker, signal.SIGKILL)).start()
    return x * 3 + salt

args = (jax.ShapeDtypeStruct((8,), jnp.float32),)
"""


def test_a_compiler_that_dies_ends_with_three(bench):
    (bench.folder / "prog.py").write_text(FAULT)
    ended = bench.vtpu("check", "prog:step", "--on", "v5e:1x1")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert "ended by signal SIGKILL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_compiler_that_hangs_ends_with_three(bench):
    (bench.folder / "prog.py").write_text(FAULT)
    ended = bench.vtpu("check", "prog:step", "--on", "v5e:1x1", VTPU_COMPILE_TIMEOUT="2")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert "did not answer within 2 s" in ended.stderr
