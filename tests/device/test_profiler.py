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
        lines = {line.name: [event.name for event in line.events] for line in plane.lines}
        modules = [name.partition("(")[0] for name in lines.get("XLA Modules", [])]
        print(plane.name, dict(plane.stats)["vtpu_time_basis"], modules, len(lines.get("XLA Ops", [])))
    if plane.name == "/host:CPU":
        found = {e.name for line in plane.lines for e in line.events}
        print(sorted(n for n in found if n.startswith(("Execute ", "TransferFromDevice"))))
"""


def test_a_trace_holds_a_plane_per_device_with_its_executions_and_their_operations(virtual):
    ended = virtual.run(PROGRAM)
    assert (ended.exit_code, ended.stderr) == (0, "")
    *planes, host = ended.stdout.splitlines()
    assert len(planes) == 8
    assert planes[0] == "/device:TPU:0 no execution [] 0"
    assert planes[1].startswith("/device:TPU:1 modelled ['jit__lambda', ")
    assert int(planes[1].rpartition(" ")[2]) > 0
    assert "'Execute jit__lambda'" in host
    assert "'TransferFromDevice'" in host


def test_a_trace_of_the_host_only_has_no_device(virtual):
    ended = virtual.run(PROGRAM, "host")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "/device" not in ended.stdout


def test_two_traces_of_one_program_hold_each_its_own(virtual):
    ended = virtual.run("""
import glob, warnings
import jax, jax.numpy as jnp
warnings.simplefilter("ignore")
step = jax.jit(lambda x: x + 1)
x = step(jnp.ones(8))
for name, times in (("one", 2), ("other", 3)):
    with jax.profiler.trace(name):
        for _ in range(times):
            x = step(x)
    [path] = glob.glob(name + "/**/*.xplane.pb", recursive=True)
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        if plane.name == "/device:TPU:0":
            print(name, [len(list(line.events)) for line in plane.lines if line.name == "XLA Modules"])
""")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "one [2]\nother [3]\n"
