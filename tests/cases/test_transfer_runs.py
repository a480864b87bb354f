"""Cases about transfers, run whole: how many, how large, from which line."""

from __future__ import annotations

from answers import load_case
from running import Bench, source_of
from vtpu.analysis.run.transfers import Direction
from vtpu.recording.events import EventKind, of_kind


def test_activations_fetched_in_every_step(bench: Bench) -> None:
    case = load_case("xfer-activations-to-host")
    expected = case.expected["device_to_host"]
    run = bench.run(case.program, on=case.topology, VTPU_VALUES="zeros")

    run.succeeded("8388608\n")
    (fetched,) = run.transfers(Direction.DEVICE_TO_HOST)
    assert (fetched.count, fetched.bytes) == (expected["count"], expected["total_bytes"])
    assert fetched.largest_bytes == expected["bytes_each"]
    assert expected["line_contains"] in source_of(fetched.line)
    (looked_at,) = run.summary.fabricated_values
    assert (looked_at.line, looked_at.count) == (fetched.line, expected["count"])


def test_a_python_number_in_eager_code_is_sent_each_time(bench: Bench) -> None:
    case = load_case("xfer-python-scalar")
    expected = case.expected
    run = bench.run(case.program, on=case.topology)

    run.succeeded(run.printed)
    assert float(run.printed) > 0
    (sent,) = run.transfers(Direction.HOST_TO_DEVICE, expected["line_contains"])
    assert (sent.count, sent.largest_bytes) == (
        expected["host_to_device_scalars"],
        expected["bytes_each"],
    )
    others = sorted(
        (source_of(t.line).strip(), t.count)
        for t in run.transfers(Direction.HOST_TO_DEVICE)
        if t != sent
    )
    assert others == [("print(x[0])", 1), ("x = jnp.ones((1024,))", 1)]


def test_printing_a_sharded_array_gathers_it(bench: Bench) -> None:
    case = load_case("xfer-debug-print-gathers")
    expected = case.expected
    run = bench.run(case.program, on=case.topology)

    assert (run.exit_code, run.stderr) == (0, "")
    assert run.printed.startswith("activations [[0.")
    (printed,) = run.transfers(Direction.CALLBACK)
    assert (printed.count, printed.bytes) == (1, expected["global_bytes"])
    assert "print(step(x))" in source_of(printed.line)
    step = run.program("jit_with_print")
    assert step.temp_bytes >= expected["global_bytes"]
    assert min(device.peak_reserved_bytes for device in run.summary.hbm) == step.temp_bytes


def test_queueing_is_quick_and_every_step_is_recorded(bench: Bench) -> None:
    case = load_case("input-timing-without-waiting")
    run = bench.run(case.program, on=case.topology)

    words = run.printed.split()
    run.succeeded(run.printed)
    assert [words[0], words[2]] == ["queued", "done"]
    assert float(words[1]) < case.expected["step_ms_min"] / 1000
    assert run.program("jit_step").calls == 11
    executions = of_kind(run.recording.events, EventKind.EXECUTE)
    (step,) = (p for p in run.recording.programs if p.name == "jit_step")
    assert (executions["program"] == step.number).sum() == 11
    assert step.flops
    assert step.flops >= case.expected["step_flops"]


def test_host_memory_takes_arrays_without_a_transfer(bench: Bench) -> None:
    run = bench.run(
        """
        import jax, numpy as np
        from jax.sharding import SingleDeviceSharding
        device = jax.devices()[0]
        host = SingleDeviceSharding(device, memory_kind="pinned_host")
        x = jax.device_put(np.ones((256, 1024), np.float32), host)
        np.asarray(x)
        y = jax.device_put(x, SingleDeviceSharding(device))
        step = jax.jit(lambda a: a, in_shardings=host, out_shardings=host)
        z = step(x)
        """.replace("\n        ", "\n")
    )

    run.succeeded()
    size = 256 * 1024 * 4
    moved = [(t.direction, t.count, t.bytes) for t in run.summary.transfers]
    assert moved == [
        (Direction.HOST_TO_DEVICE, 1, size),
        (Direction.HOST_TO_HOST, 1, size),
        (Direction.HOST_TO_HOST, 1, size),
    ]
    step = run.program("jit__lambda")
    assert (step.argument_bytes, step.output_bytes) == (0, 0)
    assert (step.host_argument_bytes, step.host_output_bytes) == (size, size)
    assert run.recording.end
    memory = run.recording.end.memory[0]
    device = run.summary.hbm[0]
    assert (device.host_in_use_bytes, device.host_peak_bytes) == (2 * size, 2 * size)
    assert (memory.host_in_use, memory.host_peak) == (2 * size, 2 * size)
    assert "in host memory" in run.report_text
