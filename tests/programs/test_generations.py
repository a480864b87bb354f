"""The same program runs on every generation, by the names that people use for its slices."""

from __future__ import annotations

import pytest

from running import Bench

GIB = 1 << 30
STEP = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",))
rows = 8 * jax.device_count()
x = jax.jit(lambda: jnp.ones((rows, 512)), out_shardings=NamedSharding(mesh, P("data")))()

@jax.jit
def step(x):
    return (x @ jnp.ones((512, 128), jnp.float32)).sum()

print(jax.device_count(), jax.local_device_count(), jax.devices()[0].device_kind, step(x).shape)
"""


@pytest.mark.parametrize(
    ("on", "slice_", "devices", "here", "kind", "hbm_gib"),
    [
        ("v2-8", "v2:2x2", 8, 8, "TPU v2", 7.48),
        ("v3-8", "v3:2x2", 8, 8, "TPU v3", 15.48),
        ("v4-8", "v4:2x2x1", 4, 4, "TPU v4", 30.75),
        ("v5litepod-8", "v5e:2x4", 8, 8, "TPU v5 lite", 15.75),
        ("v5p-16", "v5p:2x2x2", 8, 4, "TPU v5", 95.74),
        ("v6e-8", "v6e:2x4", 8, 8, "TPU v6 lite", 31.24),
        ("tpu7x-8", "tpu7x:2x2x1", 8, 8, "TPU7x", 94.74),
    ],
)
def test_every_generation_runs_a_step(
    bench: Bench, on: str, slice_: str, devices: int, here: int, kind: str, hbm_gib: float
) -> None:
    run = bench.run(STEP, on=on)
    run.succeeded(f"{devices} {here} {kind} ()\n")
    assert (run.summary.run.slice, run.summary.run.num_devices) == (slice_, devices)
    assert run.summary.run.hbm_bytes_per_device / GIB == pytest.approx(hbm_gib, abs=0.02)
    rows = 8
    assert run.program("jit_step").argument_bytes == rows * 512 * 4
