"""Sharded programs run on slices of several hosts, seen from one of them, and on several slices."""

from __future__ import annotations

from pathlib import Path

import pytest

from running import Bench, source_of
from vtpu.analysis.run.transfers import Direction

SCRIPTS = Path(__file__).with_name("scripts")
F32 = 4


@pytest.mark.parametrize(
    ("on", "host", "devices", "hosts", "first", "row"),
    [
        ("v5e-16", 0, 16, 4, "[0, 0, 0]", 4),
        ("v5e-16", 3, 16, 4, "[2, 2, 0]", 4),
        ("v5p:8x8x8", 0, 512, 128, "[0, 0, 0]", 8),
        ("v5p:8x8x8", 3, 512, 128, "[6, 0, 0]", 8),
    ],
)
def test_training_over_all_devices_with_the_data_of_one_host(
    bench: Bench, on: str, host: int, devices: int, hosts: int, first: str, row: int
) -> None:
    run = bench.run(SCRIPTS / "mesh_training.py", on=on, host=host)

    hidden = 2048 // row
    run.succeeded(
        f"devices {devices} here 4\n"
        f"process {host} of {hosts}\n"
        f"first device here {first}\n"
        f"batch ({devices // row * 16}, 512) shards here 4 (16, 512)\n"
        f"up (512, {hidden}) loss replicated True\n"
    )
    facts = run.summary.run
    assert (facts.host, facts.num_hosts) == (host, hosts)
    assert (facts.num_devices, facts.num_local_devices) == (devices, 4)

    step = run.program("jit_step")
    weights, batch = 2 * 512 * hidden * F32, 16 * 512 * F32
    assert (step.compiles, step.calls) == (1, 3)
    assert (step.argument_bytes, step.alias_bytes) == (weights + batch, weights)
    (fed,) = run.transfers(Direction.HOST_TO_DEVICE, "make_array_from_process_local_data")
    assert (fed.count, fed.bytes, fed.largest_bytes) == (3 * 4, 3 * 4 * batch, batch)
    assert run.transfers(Direction.DEVICE_TO_HOST) == []
    run.peaked_at("step(params, x)", "make_array_from_process_local_data", devices=4)
    assert len({device.peak_bytes for device in run.summary.hbm}) == 1
    local = [d.id for d in run.recording.run.devices if d.host == host]
    assert [device.device for device in run.summary.hbm] == local


@pytest.mark.parametrize(
    ("on", "host", "devices"), [("v5e-16", 0, 16), ("v5p:8x8x8", 0, 512), ("v5p:8x8x8", 3, 512)]
)
def test_collectives_by_hand_in_shard_map(bench: Bench, on: str, host: int, devices: int) -> None:
    run = bench.run(SCRIPTS / "collectives.py", on=on, host=host)

    rows = 8 * devices
    run.succeeded(f"sharded ({rows}, 256) P('ring', None) (8, 256)\nwhole ({rows}, 256) True 4\n")
    block, w = 8 * 256 * F32, 256 * 256 * F32
    ring, gathered = run.program("jit_matmul_in_ring"), run.program("jit_gathered")
    assert (ring.compiles, ring.calls, gathered.compiles, gathered.calls) == (1, 1, 1, 1)
    assert (ring.argument_bytes, ring.output_bytes) == (block + w, block)
    assert (gathered.argument_bytes, gathered.output_bytes) == (block, devices * block)
    run.peaked_at("matmul_in_ring(x, w)", "gathered(y)", devices=4)
    assert {d.in_use_bytes for d in run.summary.hbm} == {2 * block + w + devices * block}


def test_data_parallel_training_over_two_slices(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "two_slices.py", on="2*v5e-16")

    run.succeeded(
        "slices [0, 1] devices per slice 16\n"
        "mesh rows are slices [{0}, {1}]\n"
        "shard of w (1024, 64) of x (32, 1024)\n"
    )
    facts = run.summary.run
    assert (facts.num_devices, facts.num_local_devices, facts.num_hosts) == (32, 4, 8)
    assert {d.slice_index for d in run.recording.run.devices} == {0, 1}
    step = run.program("jit_step")
    w, x = 1024 * 64 * F32, 32 * 1024 * F32
    assert (step.compiles, step.calls) == (1, 2)
    assert (step.argument_bytes, step.output_bytes) == (w + x, w)
    assert "w = step(w, x)" in source_of(step.line)
    run.peaked_at("w = step(w, x)", devices=4)


def test_a_program_that_asks_for_the_other_processes(bench: Bench) -> None:
    script = """
import jax
jax.distributed.initialize()
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("start")
print(jax.process_index(), jax.process_count(), jax.device_count())
"""
    bench.run(script, on="v5e-16", host=3).succeeded("3 4 16\n")
