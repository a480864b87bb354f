"""Compiles a small training step for a TPU or the CPU and dumps what XLA writes beside it.

Run as `python dump_program.py tpu|cpu ROWS FOLDER`; a TPU needs libtpu, no chip.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BACKEND, ROWS, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ.update(
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    JAX_PLATFORMS="cpu",
    TPU_ACCELERATOR_TYPE="v5litepod-1",
    TPU_LOG_DIR="disabled",
    TPU_SKIP_MDS_QUERY="1",
    TPU_STDERR_LOG_LEVEL="0",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def step(params: dict[str, jax.Array], x: jax.Array) -> Any:
    def loss(p: dict[str, jax.Array]) -> jax.Array:
        hidden = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, p["layers"])[0]
        return jnp.mean((hidden @ p["out"]) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda a, b: a - 0.1 * b, params, gradient), value


def sharding() -> Any:
    if BACKEND == "cpu":
        return jax.sharding.SingleDeviceSharding(jax.devices()[0])
    from jax.experimental import topologies

    slice_ = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    return jax.sharding.SingleDeviceSharding(slice_.devices[0])


def main() -> None:
    where = sharding()

    def array(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32, sharding=where)

    params = {"layers": array(4, 200, 200), "out": array(200, 1000)}
    lowered = jax.jit(step, donate_argnums=0).lower(params, array(ROWS, 200))
    dump = {"xla_dump_to": FOLDER, "xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": True}
    try:
        lowered.compile(compiler_options=dump)
    except jax.errors.JaxRuntimeError as error:
        print(error)


main()
