"""Values of a slice of several hosts, seen from one of them."""

from __future__ import annotations

import pytest

from running import Bench

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",))
spread = lambda *names: NamedSharding(mesh, P(*names))
n = jax.device_count()
weights = jax.jit(lambda: jnp.arange(2.0 * n), out_shardings=spread("data"))()
own = np.full((jax.local_device_count(),), 3.0, np.float32)
batch = jax.make_array_from_process_local_data(spread("data"), own)
number = jax.device_put(np.int32(7), spread())

@jax.jit
def step(number, weights, batch):
    return number + 1, jnp.sum(weights), jnp.sum(batch)

number, total, of_batch = step(number, weights, batch)
print(int(number), float(total) == n * (2 * n - 1), float(of_batch))
"""
OTHERS = "it needs what is on the devices of other hosts"


@pytest.mark.parametrize("host", [0, 3])
def test_what_follows_from_programs_is_known_and_data_of_other_hosts_is_not(
    bench: Bench, host: int
) -> None:
    run = bench.run(PROGRAM, on="v5e-16", host=host)
    run.succeeded("8 True 0.0\n")
    read = [v for v in run.summary.fabricated_values if v.how == "read"]
    assert [(v.count, v.why) for v in read] == [(1, OTHERS)]


def test_replicated_values_of_a_pod_are_known(bench: Bench) -> None:
    run = bench.run(
        PROGRAM.replace("float(total) == n * (2 * n - 1)", "total.shape"), on="v5p:8x8x8"
    )
    run.succeeded("8 () 0.0\n")
    (seen,) = (v for v in run.summary.fabricated_values if v.how == "read")
    assert seen.count == 1
