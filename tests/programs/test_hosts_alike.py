"""JAX's helpers for many processes, in the one process that there is."""

from __future__ import annotations

import pytest

from running import Bench, source_of

HELPERS = """
{start}
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import multihost_utils as hosts
hosts.sync_global_devices("start")
step = hosts.broadcast_one_to_all({{"step": np.int64(7), "key": jnp.arange(3)}})
print(step["step"], step["step"].dtype, step["key"].shape)
print(hosts.process_allgather(np.array([1.5, 2.5])))
print(hosts.process_allgather(np.array([1, 2]), tiled=True))
hosts.assert_equal(np.arange(5), "not the same")
x = jax.make_array_from_process_local_data(
    jax.NamedSharding(jax.make_mesh((16,), ("x",)), jax.P("x")), np.ones(4, np.float32))
print(hosts.process_allgather(x, tiled=True).shape)
"""
PRINTED = """\
7 int32 (3,)
[[1.5 2.5]
 [1.5 2.5]
 [1.5 2.5]
 [1.5 2.5]]
[1 2 1 2 1 2 1 2]
(16,)
"""


@pytest.mark.parametrize("host", [0, 2])
def test_helpers_give_what_equal_hosts_would_send(bench: Bench, host: int) -> None:
    run = bench.run(HELPERS.format(start=""), on="v5e-16", host=host)
    run.succeeded(PRINTED)
    assert {"jit__psum", "jit__identity_fn"} <= run.program_names
    looked = {
        (v.how, source_of(v.line).partition("(")[0].strip()) for v in run.summary.fabricated_values
    }
    assert ("read, as here", "hosts.sync_global_devices") in looked
    assert ("read, as here", "step = hosts.broadcast_one_to_all") in looked
    assert "as here" in run.report_text


def test_helpers_imported_before_the_slice_was_attached(bench: Bench) -> None:
    start = "import vtpu\nfrom jax.experimental import multihost_utils\nvtpu.attach('v5e-16', report=False)"
    ended = bench.python(bench.script(HELPERS.format(start=start)))
    ended.succeeded(PRINTED)
