"""`jax.profiler` on a virtual slice."""

from __future__ import annotations

PROGRAM = """
import glob, sys, warnings
import jax, jax.numpy as jnp
warnings.simplefilter("ignore")  # jaxlib's own, about its types
options = jax.profiler.ProfileOptions()
if "host" in sys.argv:
    options.advanced_configuration = {"tpu_trace_mode": "TRACE_ONLY_HOST"}
step = jax.jit(lambda x: x @ x)
x = step(jnp.ones((8, 8)))
with jax.profiler.trace("trace", profiler_options=options):
    y = step(jax.device_put(x, jax.devices()[1]))
    y.block_until_ready(), float(y[0, 0])
[path] = glob.glob("trace/**/*.xplane.pb", recursive=True)
for plane in jax.profiler.ProfileData.from_file(path).planes:
    if plane.name.startswith("/device:TPU"):
        events = sorted({event.name for line in plane.lines for event in line.events})
        print(plane.name, dict(plane.stats)["vtpu_time_basis"].partition(":")[0], events)
"""


def test_a_trace_holds_a_plane_per_device_with_its_executions_and_transfers(virtual):
    ended = virtual.run(PROGRAM)
    assert (ended.exit_code, ended.stderr) == (0, "")
    planes = ended.stdout.splitlines()
    assert len(planes) == 8
    assert planes[0] == "/device:TPU:0 host []"
    assert planes[1].startswith("/device:TPU:1 host ['CopyBetweenMemories', ")
    assert "'TransferFromDevice'" in planes[1]
    assert "'jit__lambda'" in planes[1]


def test_a_trace_of_the_host_only_has_no_device(virtual):
    ended = virtual.run(PROGRAM, "host")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "")
