"""Host cost of a cached execution, recording included, against JAX's CPU backend.

    python benchmarks/execution.py

A jitted function gets n arrays and returns n arrays, replicated over four devices. The cost of a call
is fitted as base + slope x local arrays (n x devices, outputs); medians of repeated loops.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

COUNTS = (1, 10, 100, 300)

CHILD = """
import json, statistics, sys, time
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

counts, devices = json.loads(sys.argv[1]), int(sys.argv[2])
mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
everywhere = NamedSharding(mesh, P())
rows = []
for n in counts:
    f = jax.jit(lambda xs: [x + 1 for x in xs])
    xs = [jax.device_put(np.ones((8, 128), np.float32), everywhere) for _ in range(n)]
    jax.block_until_ready(f(xs))
    loops = max(20, 3000 // n)
    times = []
    for _ in range(9):
        began = time.perf_counter()
        for _ in range(loops):
            out = f(xs)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - began) / loops * 1e6)
    rows.append((n * devices, statistics.median(times)))
one = jax.jit(lambda x: x + 1)
x = jax.device_put(np.ones((8, 128), np.float32), jax.devices()[0])
one(x)
times = []
for _ in range(9):
    began = time.perf_counter()
    for _ in range(5000):
        one(x)
    times.append((time.perf_counter() - began) / 5000 * 1e6)
print(json.dumps({"rows": rows, "one": statistics.median(times)}))
"""


def measure(environment, devices):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(CHILD)
        script.flush()
        command = [sys.executable, script.name, json.dumps(COUNTS), str(devices)]
        out = subprocess.run(
            command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
        )
    return json.loads(out.stdout.splitlines()[-1])


def fit(rows):
    """Least squares of cost over arrays, weighted by 1 / cost so that small calls count too."""
    weights = [1 / cost for _, cost in rows]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, rows, strict=True)) / total
    mean_c = sum(w * c for w, (_, c) in zip(weights, rows, strict=True)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, rows, strict=True))
    slope = (
        sum(w * (n - mean_n) * (c - mean_c) for w, (n, c) in zip(weights, rows, strict=True))
        / spread
    )
    return mean_c - slope * mean_n, slope


def main():
    virtual = {"JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-4", "VTPU_REPORT": "off"}
    cpu = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    for name, environment in (("vtpu, recording", virtual), ("JAX on CPU", cpu)):
        runs = [measure(environment, 4) for _ in range(3)]
        fits = [fit(run["rows"]) for run in runs]
        base = statistics.median(b for b, _ in fits)
        slope = statistics.median(s for _, s in fits)
        one = statistics.median(run["one"] for run in runs)
        print(
            f"{name:16} one array, one device {one:6.1f} us   "
            f"four devices: {base:6.1f} us + {slope:5.2f} us per local array"
        )


if __name__ == "__main__":
    main()
