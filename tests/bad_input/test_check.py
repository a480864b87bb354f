"""`vtpu check` and its Python functions on what cannot be checked: a message, exit code 2."""

from __future__ import annotations

import json

import pytest

FILES = {
    "broken.py": "import jax\ndef load():\n    raise RuntimeError('no data')\nload()\n",
    "syntax.py": "def step(:\n",
    "needs.py": "import not_there\ndef step(x): return x\n",
    "ends.py": "import sys\ndef step(x): return x\nsys.exit('not today')\n",
    "prog.py": """
import jax, jax.numpy as jnp
S = jax.ShapeDtypeStruct
def helper(w, x):
    return w @ x
def bad(w, x):
    return helper(w, x)
bad_args = (S((8, 16), jnp.float32), S((8, 16), jnp.float32))
def lonely(x):
    return x
def raises():
    return 1 / 0
value = 5
def key_error(x):
    raise KeyError("mine")
def ends(w, x):
    raise SystemExit
""",
}


@pytest.fixture
def program(bench):
    for name, text in FILES.items():
        (bench.folder / name).write_text(text)
    return bench


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["step"], "names no function"),
        (["prog.py:"], "names no function"),
        (["nowhere.py:step"], "there is no file nowhere.py"),
        (["nowhere:step"], "there is no module nowhere"),
        (["nowhere.inner:step"], "there is no module nowhere.inner"),
        (["prog:nothing"], "It has: S, helper, bad, lonely, raises, key_error, ends"),
        (["prog:lonely"], "What are the arguments of lonely?"),
        (["prog:lonely", "--args", "nothing"], "prog has no nothing"),
        (["prog:lonely", "--args", "nowhere:args"], "there is no module nowhere"),
        (["prog:bad", "--on", "v9-8"], "is not a TPU slice"),
        (["prog:value", "--args", "bad_args"], "nothing to compile in int"),
    ],
)
def test_a_wrong_command_is_one_message(program, arguments, message):
    ended = program.vtpu("check", *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "frames", "last"),
    [
        (["prog:bad"], ["in bad", "in helper"], "TypeError: dot_general requires"),
        (["broken:step"], ["in <module>", "in load"], "RuntimeError: no data"),
        (["broken.py:step"], ["in <module>", "in load"], "RuntimeError: no data"),
        (["needs.py:step"], ["in <module>"], "ModuleNotFoundError: No module named 'not_there'"),
        (["ends.py:step"], ["in <module>"], "SystemExit: not today"),
        (["syntax.py:step"], [], "SyntaxError: invalid syntax"),
        (["prog:lonely", "--args", "raises"], ["in raises"], "ZeroDivisionError: division by zero"),
        (["prog:key_error", "--args", "bad_args"], [], "TypeError: key_error() takes 1 positional"),
    ],
)
def test_the_users_error_is_shown_as_python_shows_it_and_nothing_of_ours(
    program, arguments, frames, last
):
    ended = program.vtpu("check", *arguments, "--on", "v5e:1x1")
    assert (ended.exit_code, ended.stdout) == (2, "")
    places = [line.rpartition(", ")[2] for line in ended.stderr.splitlines() if "  File" in line]
    assert places[: len(frames)] == frames
    assert last in ended.stderr
    assert "vtpu/" not in ended.stderr
    assert "importlib" not in ended.stderr


def test_a_function_that_ends_the_process_is_an_error_and_no_verdict(program):
    ended = program.vtpu("check", "prog:ends", "--args", "bad_args", "--on", "v5e:1x1")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "in ends\n    raise SystemExit\n" in ended.stderr
    assert "vtpu/" not in ended.stderr


def test_json_that_cannot_be_written_is_a_message(program):
    program.folder.joinpath("prog.py").write_text(
        "import jax, jax.numpy as jnp\ndef f(x): return x\nargs = (jnp.ones(3),)\n"
    )
    ended = program.vtpu("check", "prog:f", "--on", "v5e:1x1", "--json", "/nowhere/found.json")
    assert ended.exit_code == 2
    assert "vtpu: the report cannot be written to /nowhere/found.json" in ended.stderr


IN_PYTHON = """
import json, sys
import jax, jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec as P
import vtpu
from vtpu.errors import VtpuError

S = jax.ShapeDtypeStruct
def f(w, x):
    return x @ w
w, x = S((64, 64), jnp.float32), S((8, 64), jnp.float32)
mesh = AbstractMesh((8,), ("d",))
spread = S((64, 64), jnp.float32, sharding=NamedSharding(mesh, P("d")))
text = "module { func.func @other() { return } }"
exported = jax.export.export(jax.jit(f), platforms=["cuda"])(w, x)
real = Mesh(np.array(jax.devices()[:2]), ("d",))
portable = jax.export.export(jax.jit(f), platforms=["tpu"])(w, x).mlir_module_serialized
inside = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(real, P("d"))))
fit = dict(on="v5e:1x1", limit="1MiB")
tries = {
    "none": lambda: vtpu.check(None, on="v5e:1x1"),
    "no slice": lambda: vtpu.check(f, w, x, on="v9"),
    "words": lambda: vtpu.check("hello", on="v5e:1x1"),
    "nothing": lambda: vtpu.check(b"", on="v5e:1x1"),
    "bytes": lambda: vtpu.check(b"\\0\\1garbage", on="v5e:1x1"),
    "bytecode": lambda: vtpu.check(b"ML\\xefRgarbage", on="v5e:1x1"),
    "cut": lambda: vtpu.check(portable[: len(portable) // 2], on="v5e:1x1"),
    "hlo": lambda: vtpu.check("HloModule x garbage", on="v5e:1x1"),
    "no main": lambda: vtpu.check(text, on="v5e:1x1"),
    "for gpus": lambda: vtpu.check(exported, on="v5e:1x1"),
    "lowered for cpu": lambda: vtpu.check(jax.jit(f).lower(w, x), on="v5e:1x1"),
    "small slice": lambda: vtpu.check(f, spread, x, on="v5e:2x2"),
    "other devices": lambda: vtpu.check(inside, w, on="v5e:2x2"),
    "no batch": lambda: vtpu.fit_batch(f, (w, x), **fit),
    "absent": lambda: vtpu.fit_batch(f, (w, x), 7, **fit),
    "ambiguous": lambda: vtpu.fit_batch(f, (w, x), 64, **fit),
    "unknown name": lambda: vtpu.fit_batch(f, (w, x), {"z": 0}, **fit),
    "no dimension": lambda: vtpu.fit_batch(f, (w, x), {"x": 2}, **fit),
    "no number": lambda: vtpu.fit_batch(f, (w, x), {"x": "rows"}, **fit),
    "half": lambda: vtpu.fit_batch(lambda a, b: a + b, (x, x), {0: 0}, **fit),
    "constant": lambda: vtpu.fit_batch(f, lambda size: (w, x), **fit),
    "limit": lambda: vtpu.fit_batch(f, (w, x), {"x": 0}, on="v5e:1x1", limit="lots"),
    "margin": lambda: vtpu.fit_batch(f, (w, x), {"x": 0}, on="v5e:1x1", margin="150%"),
    "compiles": lambda: vtpu.fit_batch(f, (w, x), {"x": 0}, on="v5e:1x1", most_compiles=0),
}
found = {}
for name, attempt in tries.items():
    try:
        attempt()
    except VtpuError as error:
        found[name] = str(error)
json.dump(found, sys.stdout)
"""
MESSAGES = {
    "none": "nothing to compile in NoneType",
    "no slice": "is not a TPU slice",
    "words": "no program that can be compiled",
    "nothing": "no program that can be compiled",
    "bytes": "no program that can be compiled",
    "bytecode": "no program that can be compiled",
    "cut": "no program that can be compiled",
    "hlo": "no program that can be compiled",
    "no main": "has no function `main`",
    "for gpus": "exported for cuda. Export it for TPUs",
    "lowered for cpu": "lowered for cpu. Give the function",
    "small slice": "spread over 8 devices (mesh {'d': 8}), and the slice has 4",
    "other devices": "names devices that are none of the slice's",
    "no batch": "does not know what to scale. Say where the batch is: `batch={'x': 0",
    "absent": "No argument has a dimension of 7: w (float32[64,64]), x (float32[8,64])",
    "ambiguous": "Not every dimension of 64 may be the batch: w (float32[64,64]), x (float32[8,64])",
    "unknown name": "names 'z', and the arguments are w, x",
    "no dimension": "x (float32[8,64]) has no dimension 2",
    "no number": "a dimension is a number",
    "half": "works with a batch of 8 and raises TypeError with 16",
    "constant": "the same shapes for every size",
    "limit": "limit: not a size in bytes: 'lots'",
    "margin": "a share of HBM below 1",
    "compiles": "whole numbers from 1 on",
}


def test_every_wrong_call_is_one_clear_error_and_no_noise(bench):
    flags = "--xla_force_host_platform_device_count=2"
    (bench.folder / "prog.py").write_text(IN_PYTHON)
    ended = bench.python("prog.py", JAX_PLATFORMS="cpu", XLA_FLAGS=flags)
    assert (ended.exit_code, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    assert found.keys() == MESSAGES.keys()
    for name, message in MESSAGES.items():
        assert message in found[name]
