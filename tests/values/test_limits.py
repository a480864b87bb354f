"""Contents of arrays take no more memory and disk than they may."""

from __future__ import annotations

from running import Bench
from vtpu.units import MIB

LOOP = """
import jax, jax.numpy as jnp, numpy as np
add = jax.jit(lambda total, x: total + x.sum())
total = jnp.float32(0)
for i in range(40):
    total = add(total, np.full((256, 1024), i, np.float32))  # 1 MiB each
print(float(total) == 256 * 1024 * sum(range(40)))
"""


def test_what_nobody_needs_any_more_takes_no_memory(bench: Bench) -> None:
    program = LOOP.replace("np.float32))", "np.float32)); float(total)")
    run = bench.run(program, VTPU_VALUES_MEMORY_BYTES="4MiB", VTPU_VALUES_DISK_BYTES="0")
    run.succeeded("True\n")
    assert (run.summary.values.peak_memory_bytes or 0) < 3 * MIB


def test_what_memory_may_not_take_goes_to_disk(bench: Bench) -> None:
    run = bench.run(LOOP, VTPU_VALUES_MEMORY_BYTES="4MiB", VTPU_VALUES_DISK_BYTES="1GiB")
    run.succeeded("True\n")
    values = run.summary.values
    assert (values.peak_memory_bytes or 0) <= 4 * MIB
    assert 36 * MIB <= (values.peak_disk_bytes or 0) <= 41 * MIB
    assert "on disk" in run.report_text


def test_what_neither_may_take_is_forgotten(bench: Bench) -> None:
    run = bench.run(LOOP, VTPU_VALUES_MEMORY_BYTES="4MiB", VTPU_VALUES_DISK_BYTES="4MiB")
    run.succeeded("False\n")
    (seen,) = run.summary.fabricated_values
    assert "was forgotten" in seen.why
    assert (run.summary.values.peak_memory_bytes or 0) <= 4 * MIB


def test_a_disk_that_is_full_costs_the_oldest_and_not_what_comes_later(bench: Bench) -> None:
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))"
    later = "later = jax.device_put(np.full((256, 1024), 0.5, np.float32))\n"
    program = full + LOOP.replace("print(", later + "print(") + "print(float(later.sum()))\n"
    run = bench.run(program, VTPU_VALUES_MEMORY_BYTES="4MiB", VTPU_VALUES_DISK_BYTES="1GiB")
    run.succeeded("False\n131072.0\n")
    (seen,) = run.summary.fabricated_values
    assert "was forgotten" in seen.why


def test_equal_data_for_several_devices_is_kept_once(bench: Bench) -> None:
    run = bench.run("""
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("data",))
x = jax.device_put(np.arange(1 << 18, dtype=np.float32), NamedSharding(mesh, P()))
print(float(x[3]))
""")
    run.succeeded("3.0\n")
    assert (run.summary.values.peak_memory_bytes or 0) < 2 * MIB


def test_no_file_is_left(bench: Bench) -> None:
    folder = bench.folder / "temporary"
    folder.mkdir()
    bench.run(LOOP, TMPDIR=str(folder), VTPU_VALUES_MEMORY_BYTES="1MiB").succeeded("True\n")
    assert [f.name for f in folder.iterdir() if "values" in f.name] == []
