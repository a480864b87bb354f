"""What looking at the step counter and the learning rate costs in each step of a large program.

    python benchmarks/values.py

A training step of about 15,000 operations, on four devices; medians of 200 steps with values computed
(`auto`) and without (`zeros`).
"""

import json
import os
import subprocess
import sys
import tempfile

CHILD = """
import json, statistics, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",))

def loss(w, x):
    for _ in range(250):
        x = jnp.tanh(x @ w) * 0.9 + x * 0.1
    return jnp.mean(x)

def step(number, w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    rate = 1e-3 * jnp.minimum(1.0, (number + 1) / 100.0)
    return number + 1, w - rate * grad, value, rate

jitted = jax.jit(step, donate_argnums=1)
x = jax.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P("data")))
w = jax.device_put(np.eye(16, dtype=np.float32), NamedSharding(mesh, P()))
number = jax.device_put(np.int32(0), NamedSharding(mesh, P()))
operations = jitted.lower(number, w, x).as_text().count(" = ")
times = []
for _ in range(210):
    began = time.perf_counter()
    number, w, value, rate = jitted(number, w, x)
    seen = int(number), float(rate)
    times.append((time.perf_counter() - began) * 1e3)
print(json.dumps([operations, times[0], statistics.median(times[10:]), seen]))
"""


def measure(values: str) -> list[float]:
    environment = {
        **os.environ, "JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-4", "VTPU_REPORT": "off",
        "VTPU_VALUES": values,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            env=environment,
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return json.loads(done.stdout)


def main() -> None:
    measure("zeros")  # compiles for the TPU
    zeros, auto = measure("zeros"), measure("auto")
    assert auto[3][0] == 210, "the values were not computed"
    print(f"{zeros[0]:,} operations; last values seen: {auto[3]}")
    print(f"first step: {auto[1] - zeros[1]:.0f} ms more with values")
    print(f"later steps: {zeros[2]:.3f} ms without values, {auto[2]:.3f} ms with: "
          f"{auto[2] - zeros[2]:.2f} ms more")  # fmt: skip


if __name__ == "__main__":
    main()
