"""What `vtpu check` adds to the bare compile of the same program, and what it takes when cached.

    python benchmarks/check.py [LAYERS]

The bare compile is JAX's own, `lower(...).compile()` for the described devices of the slice with libtpu in
the process (`jax.experimental.topologies`). Each compile is in a process of its own, without caches, in
turn; what counts is the time from the first look at the program to the answer.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
PROGRAM = """
import jax, jax.numpy as jnp

S = jax.ShapeDtypeStruct
LAYERS, WIDTH, HEADS, WORDS = {layers}, 512, 8, 8192

def attention(x, w):
    q, k, v = (y.reshape(*y.shape[:2], HEADS, -1) for y in jnp.split(x @ w, 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)

def loss(params, tokens):
    x = params["words"][tokens]
    for layer in params["layers"]:
        x = x + attention(x, layer["attention"]) @ layer["out"]
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    logits = (x @ params["words"].T).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()

def step(params, moments, tokens):
    value, gradient = jax.value_and_grad(loss)(params, tokens)
    moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, gradient)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, params, moments), moments, value

step = jax.jit(step, donate_argnums=(0, 1))
array = lambda *dims: S(dims, jnp.bfloat16)
params = {{
    "words": array(WORDS, WIDTH),
    "layers": [
        {{"attention": array(WIDTH, 3 * WIDTH), "out": array(WIDTH, WIDTH),
          "up": array(WIDTH, 4 * WIDTH), "down": array(4 * WIDTH, WIDTH)}}
        for _ in range(LAYERS)
    ],
}}
args = (params, params, S((8, 512), jnp.int32))
"""
BARE = """
import json, time
import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding
import prog

topology = topologies.get_topology_desc(
    platform="tpu", topology_name="v5e:1x1x1", chips_per_host_bounds=(1, 1, 1))
on = SingleDeviceSharding(topology.devices[0])
args = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=on), prog.args)
began = time.perf_counter()
prog.step.lower(*args).compile()
print(json.dumps([time.perf_counter() - began]))
"""
CHECKED = """
import json, time
import jax
import vtpu
from vtpu.device.attach import compiling_session
import prog

compiling_session()  # the topology, which the bare compile has before it begins, too
times = []
for _ in range(3):
    began = time.perf_counter()
    found = vtpu.check(prog.step, *prog.args, on="v5e:1x1")
    times.append(time.perf_counter() - began)
    jax.clear_caches()
print(json.dumps([*times, len(found.usage.order)]))
"""


def run(script, folder, cache):
    (Path(folder) / "run.py").write_text(script)
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "VTPU_CACHE_DIR": cache,
    }
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def command_s(folder, cache):
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "vtpu", "check", "prog:step", "--on", "v5e:1x1"],
        cwd=folder,
        env={**os.environ, "VTPU_CACHE_DIR": cache},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began


def main():
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    bare, checked, known = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "prog.py").write_text(PROGRAM.format(layers=layers))
        for number in range(ROUNDS):  # in turn, so that noise of the machine meets both
            cache = str(Path(folder) / f"cache{number}")
            bare += run(BARE, folder, cache)
            first, *again, instructions = run(CHECKED, folder, cache)
            checked.append(first)
            known += again
        commands = [command_s(folder, cache) for _ in range(ROUNDS)]
    bare, checked = statistics.median(bare), statistics.median(checked)
    print(f"a training step of {layers} layers, {instructions:,} instructions once compiled")
    print(f"lower().compile(): {bare:.2f} s; vtpu.check, nothing cached: {checked:.2f} s")
    print(f"ratio {checked / bare:.2f}")
    print(f"vtpu.check, cached: {statistics.median(known):.2f} s")
    print(f"vtpu check, cached, the whole command: {statistics.median(commands):.2f} s")


if __name__ == "__main__":
    main()
