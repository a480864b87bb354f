"""Cases about memory, run whole: what fits, what fails where and why, what is alive at the end."""

from __future__ import annotations

import pytest

from answers import load_case
from running import Bench, source_of
from vtpu.analysis.run.memory import AliveGroup, alive_at
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.recording import Recording
from vtpu.units import GIB, KIB, MIB


def alive_at_end(recording: Recording, device: int = 0) -> tuple[AliveGroup, ...]:
    """What a device held when the program ended."""
    return alive_at(recording, device, len(recording.events), LineFinder(recording))


# ---- does not compile --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "line", "program"),
    [
        ("hbm-adam-replicated", "out = step(*arrays)", "jit_adam"),
        ("hbm-attention-scores", "print(step(weights, x)[0].shape)", "jit_loss"),
        ("hbm-prefill-logits", "print(step(hidden, head, last).shape)", "jit_step"),
    ],
)
def test_a_program_too_large_for_the_chip_fails_at_its_call(
    bench: Bench, name: str, line: str, program: str
) -> None:
    case = load_case(name)
    run = bench.run(case.program, on=case.topology)

    assert (run.exit_code, run.printed) == (1, "")
    assert "RESOURCE_EXHAUSTED: " in run.stderr
    assert "Ran out of memory on HBM" in run.stderr
    assert f"exceeds available HBM ({int(case.expected['limit_gib'])}." in run.stderr
    assert f"    {line}\n" in run.stderr  # Python's own traceback
    failed = run.program(program)
    (compilation,) = failed.compilations
    assert compilation.error
    assert compilation.error in run.stderr
    assert (failed.compiles, failed.failed, failed.calls) == (0, 1, 0)
    assert line in source_of(compilation.line)
    assert run.summary.failures == ()  # no request of memory was made
    arguments = {device.in_use_bytes for device in run.summary.hbm}
    assert arguments == {case.breakdown["parameters_bytes"]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vmem-no-grid", "exceeded scoped vmem limit by 48.00M"),
        ("vmem-kernel-for-newer-chip", "exceeded scoped vmem limit by 8.00M"),
        ("vmem-scratch-beyond-chip", "(size=150994944) would exceed memory (size=134217728)"),
    ],
)
def test_a_kernel_too_large_for_vmem_fails_at_its_call(bench: Bench, name: str, words: str) -> None:
    case = load_case(name)
    run = bench.run(case.program, on=case.topology)

    assert run.exit_code == 1
    assert words in run.stderr
    assert case.expected.get("code", "RESOURCE_EXHAUSTED") in run.stderr
    assert [c.calls for c in run.program("jit_step").compilations] == [0]


def test_a_kernel_too_large_for_one_chip_runs_on_the_newer_one(bench: Bench) -> None:
    case = load_case("vmem-kernel-for-newer-chip")
    run = bench.run(case.program, on="v6e:1x1")
    run.succeeded("(1536, 2048)\n")
    assert run.program("jit_step").calls == 1


# ---- compiles, but there is no room ------------------------------------------------------------


def test_arguments_that_do_not_fit_fail_when_they_are_made(bench: Bench) -> None:
    """The case asks the compiler for `step`; the script does not come that far.

    Its second argument of 9 GiB has no room beside the first.
    """
    case = load_case("hbm-arguments-alone")
    run = bench.run(case.program, on=case.topology)

    assert run.exit_code == 1
    assert "RESOURCE_EXHAUSTED: Attempting to allocate 9.00G. That was not possible." in run.stderr
    assert "There are 6.75G free." in run.stderr
    (failure,) = run.summary.failures
    assert failure.wanted_bytes == case.expected["output_gib"] * GIB
    assert failure.free_bytes == run.summary.hbm[0].limit_bytes - failure.wanted_bytes - 512
    assert not failure.is_fragmentation
    assert "b = jnp.ones((N, N), jnp.float32)" in source_of(failure.line)
    assert "jit_step" not in run.program_names


def test_free_memory_in_pieces_is_fragmentation(bench: Bench) -> None:
    case = load_case("run-holes-between-arrays")
    expected = case.expected
    run = bench.run(case.program, on=case.topology)

    assert (run.exit_code, run.printed) == (1, "")
    assert (
        "RESOURCE_EXHAUSTED: Attempting to allocate 2.00G. That was not possible. There are 7.75G "
        "free. Due to fragmentation, the largest contiguous region of free memory is 1.00G."
    ) in run.stderr
    (failure,) = run.summary.failures
    assert failure.is_fragmentation is (expected["verdict"] == "fragmentation")
    assert failure.wanted_bytes == expected["request_gib"] * GIB
    assert failure.free_bytes / GIB == pytest.approx(expected["free_gib"], abs=0.01)
    assert "big = jnp.zeros((2048, 256 * 1024)" in source_of(failure.line)
    assert failure.alive[0].bytes == 8 * GIB
    assert failure.alive[0].count == 8
    assert "kept.append(jnp.full(" in source_of(failure.alive[0].line)
    assert "Out of memory" in run.report_text
    assert "fragmentation" in run.report_text
    end = run.recording.end
    assert end
    assert end.memory[0].largest_free / GIB == pytest.approx(
        expected["largest_free_gib"], abs=expected["tolerance_gib"]
    )


def test_a_program_that_compiles_can_have_no_room_beside_the_arrays(bench: Bench) -> None:
    case = load_case("run-program-has-no-room")
    expected = case.expected
    run = bench.run(case.program, on=case.topology)

    assert run.exit_code == 1
    assert (
        "Error loading program 'jit_step': Attempting to reserve 4.00G at the bottom" in run.stderr
    )
    step = run.program("jit_step")
    assert (step.compiles, step.calls) == (1, 0)
    assert step.compilations[0].error is None
    assert step.need_bytes / GIB == pytest.approx(expected["step_gib"], abs=0.001)
    (failure,) = run.summary.failures
    assert (failure.is_reservation, failure.is_fragmentation) == (True, False)
    assert failure.wanted_bytes == step.temp_bytes
    short_bytes = failure.wanted_bytes - failure.free_bytes
    assert short_bytes / MIB == pytest.approx(
        expected["short_mib"], abs=expected["short_tolerance_mib"]
    )
    cache = failure.alive[0]
    assert (cache.count, cache.bytes) == (24, expected["resident_other_gib"] * GIB)
    assert "cache = [jnp.zeros(" in source_of(cache.line)


def test_spreading_an_array_made_on_one_chip_needs_it_twice_there(bench: Bench) -> None:
    """The case's arithmetic lets the first call pass; JAX's own way to spread does not.

    `device_put` cuts the array on the chip that has it, with a program of 13 GiB of arguments and
    13 GiB of results, which no v5e can hold: the first call fails, when that program is compiled.
    """
    case = load_case("shard-after-creating")
    run = bench.run(case.program, on=case.topology)

    assert (run.exit_code, run.printed) == (1, "")
    assert "the total memory required for HLO temporaries (26.00G)" in run.stderr
    cut = run.program("jit__multi_slice")
    assert (cut.compiles, cut.failed, cut.calls) == (0, 1, 0)
    assert "jax.device_put(jnp.zeros((N // 1024, 1024)" in source_of(cut.line)
    first, *others = run.summary.hbm
    assert first.in_use_bytes == 13 * GIB
    assert {device.peak_bytes for device in others} == {0}


def test_an_array_made_in_its_sharding_fits_twice(bench: Bench) -> None:
    case = load_case("shard-after-creating")
    script = (
        f"import sys\nsys.path.insert(0, {str(case.program.parent)!r})\nimport prog\n"
        "first, second = prog.create_sharded(), prog.create_sharded()\n"
        "print(first.shape)\n"
    )
    run = bench.run(script, on=case.topology)

    run.succeeded("(3407872, 1024)\n")
    shard = 13 * GIB // 8
    assert {device.in_use_bytes for device in run.summary.hbm} == {2 * shard}
    assert max(device.peak_bytes for device in run.summary.hbm) < 2 * shard + MIB


# ---- fits --------------------------------------------------------------------------------------


def test_the_need_of_a_program_is_not_the_field_called_peak_memory(bench: Bench) -> None:
    case = load_case("analysis-peak-is-not-hbm")
    run = bench.run(case.program, on=case.topology)

    run.succeeded("(1024, 1024)\n")
    assert run.program("jit_step").need_bytes == case.expected["hbm_bytes"]
    assert run.summary.hbm[0].peak_bytes == case.expected["hbm_bytes"]
    assert "step(jnp.ones((N, N))" in source_of(run.summary.hbm[0].peak_line)
    (step,) = (p for p in run.recording.programs if p.name == "jit_step")
    assert step.peak_memory_field_bytes == case.expected["peak_field_bytes"]


@pytest.mark.parametrize(
    ("name", "program", "printed"),
    [
        ("pad-gather-indices", "jit_step", "(1024, 1, 128, 128)\n"),
        ("pad-one-hot-classes", "jit_step", None),
        ("remat-scan-of-steps", "jit__lambda", "0.0\n"),
        ("shard-batch-left-whole", "jit_step", None),
        ("shard-full-gather", "jit_add", "(384, 384, 384)\n"),
    ],
)
def test_the_peak_is_what_the_largest_program_needs(
    bench: Bench, name: str, program: str, printed: str | None
) -> None:
    case = load_case(name)
    run = bench.run(case.program, on=case.topology)

    run.succeeded(run.printed if printed is None else printed)
    largest = run.program(program)
    assert (largest.compiles, largest.calls) == (1, 1)
    for device in run.summary.hbm:
        assert device.peak_program == program
        assert largest.need_bytes <= device.peak_bytes <= largest.need_bytes + 4 * KIB
        assert device.peak_reserved_bytes == largest.temp_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("hbm-scan-over-layers", ["jit_scanned", "jit_unrolled", "jit_scanned_remat"]),
        ("remat-saved-dots", ["jit_loss", "jit_loss", "jit_loss"]),
    ],
)
def test_every_variant_of_a_step_runs(bench: Bench, name: str, programs: list[str]) -> None:
    case = load_case(name)
    run = bench.run(case.program, on=case.topology)

    assert (run.exit_code, run.stderr) == (0, "")
    variants = [line.split()[0] for line in run.printed.splitlines()]
    assert set(variants) == set(case.expected["temp_bytes"])
    compiled = [p for p in run.recording.programs if p.name in programs]
    assert [p.name for p in compiled] == programs
    by_need = sorted(zip(variants, compiled, strict=True), key=lambda pair: pair[1].temp_bytes)
    assert [variant for variant, _ in by_need] == case.expected["order_small_to_large"]


@pytest.mark.slow
def test_batches_of_every_size_fit(bench: Bench) -> None:
    case = load_case("hbm-batch-not-monotone")
    run = bench.run(case.program, on=case.topology)
    run.succeeded("131072 (1024, 8192)\n196608 (1024, 8192)\n262144 (1024, 8192)\n")
    assert run.program("jit_loss").calls == 3


def test_a_program_reserves_what_the_compiler_placed(bench: Bench) -> None:
    case = load_case("remat-scan-of-steps")
    run = bench.run(case.program, on=case.topology)
    reserved = run.summary.hbm[0].peak_reserved_bytes
    assert reserved == pytest.approx(case.expected["temp_bytes"]["step"], rel=0.1)


def test_the_reservation_is_the_same_when_the_user_dumps_what_the_compiler_does(
    bench: Bench,
) -> None:
    case = load_case("remat-scan-of-steps")
    dump = bench.folder / "dump"
    flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_proto=true"
    run = bench.run(case.program, on=case.topology, XLA_FLAGS=flags)
    reserved = run.summary.hbm[0].peak_reserved_bytes
    assert reserved == pytest.approx(case.expected["temp_bytes"]["step"], rel=0.1)
    assert list(dump.glob("*jit__lambda*.after_optimizations.hlo.pb"))  # and they stay


def test_a_result_moved_to_the_host_takes_no_hbm(bench: Bench) -> None:
    case = load_case("offload-result-to-host")
    run = bench.run(case.program, on=case.topology)

    run.succeeded("pinned_host\n")
    moved = run.program("jit__lambda")
    assert moved.host_bytes == case.expected["host_output_bytes"]
    assert moved.output_bytes == case.expected["output_bytes"]
    end = run.recording.end
    assert end
    assert end.memory[0].host_in_use == case.expected["host_output_bytes"]


def test_outputs_kept_in_a_list_stay_alive(bench: Bench) -> None:
    case = load_case("leak-history-of-outputs")
    expected = case.expected
    run = bench.run(case.program, on=case.topology)

    run.succeeded("12\n")
    assert run.program("jit_step").calls == 12
    assert run.summary.hbm[0].in_use_bytes == expected["live_bytes_at_end"]
    (alive,) = alive_at_end(run.recording)
    assert alive.count == expected["live_arrays_at_end"]
    assert "x, extra = step(x)" in source_of(alive.line)
    growth = (alive.bytes - alive.bytes // alive.count) // 12
    assert growth == expected["growth_bytes_per_step"]


DUMPED = """
import glob, shutil, sys
import jax, jax.numpy as jnp
def f(w, x):
    return jnp.tanh(x @ w).sum()
s = jax.ShapeDtypeStruct((256, 256), jnp.float32)
for _ in range(2):
    shutil.rmtree("dump", ignore_errors=True)
    jax.clear_caches()
    program = jax.jit(f).lower(s, s).compile({"xla_dump_to": "dump"})
    (text,) = glob.glob("dump/*.jit_f.*.after_optimizations.txt")
    print("prog.py" in open(text).read(), "prog.py" in program.as_text())
try:
    jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((1 << 34,), jnp.float32)).compile({"xla_dump_to": "oom"})
except jax.errors.JaxRuntimeError:
    (text,) = glob.glob("oom/*jit__lambda*.after_optimizations.txt")
    print("prog.py" in open(text).read())
"""


def test_what_the_user_dumps_has_the_users_lines_each_time(bench: Bench) -> None:
    bench.script(DUMPED)
    ended = bench.vtpu("run", "--on", "v5e:1x1", "--json", "report.json", "prog.py")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.startswith("True True\nTrue True\nTrue\n")
