"""Programs that need nothing but JAX run unmodified on one device of a slice."""

from __future__ import annotations

from pathlib import Path

from running import Bench, source_of
from vtpu.analysis.run.transfers import Direction
from vtpu.recording.events import EventKind, of_kind

SCRIPTS = Path(__file__).with_name("scripts")
F32, BF16 = 4, 2


def test_a_jit_and_grad_loop(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "jit_grad_loop.py")

    run.succeeded("step 3 loss 127.216\nstep 6 loss 169.464\n")  # as on JAX's CPU backend
    facts = run.summary.run
    assert (facts.slice, facts.slice_asked) == ("v5e:2x4", "v5e-8")
    assert (facts.num_devices, facts.num_local_devices, facts.num_hosts) == (8, 8, 1)
    assert (facts.exit_code, facts.was_cut, run.summary.problems) == (0, False, ())

    step = run.program("jit_step")
    up, down = 256 * 512 * F32, 512 * 1 * F32
    x, y = 1024 * 256 * F32, 1024 * 1 * F32
    assert (step.compiles, step.calls) == (1, 6)
    assert step.argument_bytes == up + down + x + y
    assert step.alias_bytes == up + down
    assert "params, value = step(params, x, y)" in source_of(step.line)

    (batches,) = run.transfers(Direction.HOST_TO_DEVICE, "step(params, x, y)")
    assert (batches.count, batches.bytes, batches.largest_bytes) == (12, 6 * (x + y), x)
    (losses,) = run.transfers(Direction.DEVICE_TO_HOST)
    assert "float(value)" in source_of(losses.line)
    assert (losses.count, losses.bytes) == (2, 2 * F32)
    assert run.summary.fabricated_values == ()
    assert run.summary.values.computed_reads == 2

    run.peaked_at("step(params, x, y)", devices=1)
    device = run.summary.hbm[0]
    assert device.in_use_bytes == 0  # everything was local to main
    assert device.peak_bytes >= step.argument_bytes + step.temp_bytes


def test_a_pallas_kernel_with_scratch(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "pallas_kernel.py")

    run.succeeded("(512, 768) bfloat16 kernel in the program: True\n")
    layer = run.program("jit_layer")
    x, w, y = 512 * 1024 * BF16, 1024 * 768 * BF16, 512 * 768 * BF16
    assert (layer.compiles, layer.calls) == (1, 3)
    assert (layer.argument_bytes, layer.output_bytes, layer.alias_bytes) == (x + w, y, 0)
    run.peaked_at("y = layer(x, w)", devices=1)
    assert run.summary.hbm[0].in_use_bytes == x + w + y


def test_programs_that_call_the_host(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "callbacks.py")

    printed = "in step: sum 8.0\nin step: sum 32.0\nin step: sum 44.0\n"
    run.succeeded(printed + "heard 3 times, shape (8,) result (8,)\n")
    step = run.program("jit_step")
    assert (step.compiles, step.calls) == (1, 3)

    (calls,) = run.transfers(Direction.CALLBACK)
    printed, looked_up, heard = F32, 8 * F32, (1 + 8) * F32  # in 1, 1 and 2 values
    assert "x, count = step(x, number)" in source_of(calls.line)
    assert (calls.count, calls.bytes) == (3 * 4, 3 * (printed + looked_up + heard))
    assert run.summary.fabricated_values == ()
    assert run.summary.unsupported_calls == ()


def test_a_host_function_whose_values_cannot_be_had_is_called_once_with_zeros(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "callbacks.py", VTPU_VALUES="zeros")

    run.succeeded(3 * "in step: sum 0.0\n" + "heard 3 times, shape (8,) result (8,)\n")
    why = "values are switched off"
    assert {(v.how, v.count, v.why) for v in run.summary.fabricated_values} == {
        ("callback", 12, why)
    }


def test_a_loader_that_prefetches_in_a_thread(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "prefetching_loader.py")

    run.succeeded("trained on 12 batches ()\n")
    batch = 256 * 512 * F32
    (loaded,) = run.transfers(Direction.HOST_TO_DEVICE, "batches.put(jax.device_put(")
    assert (loaded.count, loaded.bytes, loaded.largest_bytes) == (12, 12 * batch, batch)
    assert run.program("jit_step").calls == 12
    assert run.summary.hbm[0].peak_bytes <= 6 * batch  # two wait, one is used, one is made
    assert run.summary.hbm[0].in_use_bytes == padded(F32)  # the total


def test_steps_under_the_profiler(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "profiled_steps.py")

    run.succeeded("traced True\nmemory profile True\n")
    step = run.program("jit_step")
    assert (step.compiles, step.calls) == (1, 3)
    assert run.summary.unsupported_calls == ()
    run.peaked_at("x = step(x, w)", devices=1)


def test_activations_and_optimizer_state_in_host_memory(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "checkpoint_offload.py")

    run.succeeded("weights in {'device'}\nmomentum in {'pinned_host'}\n")
    layers, rows, width, hidden = 4, 2048, 512, 1024
    weights = 2 * layers * width * hidden * F32
    momentum, offloaded = weights, layers * rows * hidden * F32
    x = rows * width * F32

    step = run.program("jit_step")
    assert (step.compiles, step.calls) == (1, 3)
    assert (step.argument_bytes, step.alias_bytes) == (weights + x, weights)
    assert step.host_bytes == momentum + offloaded  # donated in place; the activations

    (moved,) = run.transfers(Direction.DEVICE_TO_HOST)
    assert "momentum = jax.device_put(" in source_of(moved.line)
    assert (moved.count, moved.bytes) == (2, momentum)
    end = run.recording.end
    assert end
    assert end.memory[0].host_in_use == momentum
    assert run.summary.hbm[0].in_use_bytes == weights + x
    executions = of_kind(run.recording.events, EventKind.EXECUTE)
    assert len(executions) == sum(p.calls for p in run.summary.programs)


def padded(size_bytes: int) -> int:
    """Bytes of a small float32 array on the device: whole tiles of 128 numbers."""
    return -(-size_bytes // 512) * 512
