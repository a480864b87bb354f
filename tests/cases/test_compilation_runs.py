"""Cases about compiling and donating, run whole: how often, why again, what is reused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from answers import Case, load_case, module_name
from running import Bench, Run, source_of
from vtpu.recording.events import EventKind, of_kind
from vtpu.recording.recording import Recording

WARNING = "UserWarning: Some donated buffers were not usable"


def run_case(bench: Bench, case: Case) -> Run:
    """Runs a case whole; its programs must compile as often as is known."""
    run = bench.run(case.program, on=case.topology)
    assert run.exit_code == 0, run.stderr
    for function, count in case.expected.get("compiles", {}).items():
        assert run.program(module_name(function)).compiles == count
    return run


def test_jit_in_a_loop_compiles_the_same_program_each_time(bench: Bench) -> None:
    run = run_case(bench, load_case("recompile-jit-in-loop"))

    program = run.program("jit__lambda")
    assert (program.distinct, program.calls) == (1, 7)
    reasons = {c.reason for c in program.compilations[1:]}
    assert reasons == {
        "another function defined on the same line: the function is defined again each time"
    }
    assert {source_of(c.line).strip() for c in program.compilations} == {
        "x = jax.jit(lambda v: v * 1.5 + 1.0)(x)"
    }
    assert "Compiled more than once" in run.report_text
    assert live_arrays(run.recording) == (1, 1024)


def test_a_static_field_that_flips_is_the_reason(bench: Bench) -> None:
    case = load_case("recompile-static-field")
    run = run_case(bench, case)

    program = run.program("jit_serve")
    first, second = program.compilations
    assert (first.calls, second.calls) == (4, 2)
    reason = second.reason or ""
    assert "pytree metadata (True,) and before" in reason
    assert "Request" in reason
    assert calls_before(run, second.program) == case.expected["second_compile_at_call"] - 1
    assert live_arrays(run.recording) == (2, 6432)


def test_a_weak_type_is_the_reason(bench: Bench) -> None:
    run = run_case(bench, load_case("recompile-weak-type"))

    first, second = run.program("jit_smooth").compilations
    assert (first.calls, second.calls) == (1, 7)
    assert "at average, now f32[]{weak_type=False} and before f32[]{weak_type=True}" in (
        second.reason or ""
    )
    assert live_arrays(run.recording) == (2, 8)


def test_every_new_shape_leaves_a_program_and_no_array(bench: Bench) -> None:
    run = run_case(bench, load_case("leak-one-program-per-shape"))

    run.succeeded("done\n")
    assert live_arrays(run.recording) == (0, 0)
    assert run.summary.hbm[0].in_use_bytes == 0


def test_a_captured_table_is_code_and_no_argument(bench: Bench) -> None:
    case = load_case("recompile-captured-table")
    run = run_case(bench, case)

    step = run.program("jit_step")
    assert step.argument_bytes == case.expected["argument_bytes"]
    assert step.generated_code_bytes == pytest.approx(
        case.expected["generated_code_bytes_about"], rel=0.1
    )


def test_a_cache_that_grows_is_never_reused(bench: Bench) -> None:
    case = load_case("donate-growing-cache")
    run = run_case(bench, case)

    assert run.stderr.count(WARNING) == case.expected["warnings"]
    append = run.program("jit_append")
    assert (append.distinct, append.alias_bytes) == (6, case.expected["aliased_bytes"])
    caches = [c.parameter_shapes[0].partition("{")[0] for c in append.compilations]
    assert [caches[0], caches[-1]] == case.expected["cache_shapes"]
    assert live_arrays(run.recording) == (1, 143360)


def test_state_that_is_not_donated_is_there_twice(bench: Bench) -> None:
    case = load_case("donate-nothing")
    run = run_case(bench, case)

    run.succeeded("(8, 2048, 2048)\n")
    update = run.program("jit_update")
    assert (update.compiles, update.calls, update.alias_bytes) == (1, 3, 0)
    assert update.output_bytes - case.expected["could_alias_bytes"] == 512  # a table of addresses
    need = case.expected["argument_bytes"] + case.expected["could_alias_bytes"]
    assert run.summary.hbm[0].peak_bytes == need + update.temp_bytes


@pytest.mark.parametrize(("variant", "warnings"), [("replicated", 1), ("columns", 0), ("rows", 0)])
def test_donation_across_shardings(bench: Bench, variant: str, warnings: int) -> None:
    case = load_case("donate-other-sharding")
    expected: dict[str, Any] = case.expected
    script = (
        f"import sys\nsys.path.insert(0, {str(case.program.parent)!r})\nimport prog\n"
        "s = prog.jnp.ones((prog.N, prog.N), prog.jnp.float32, device=prog.rows)\n"
        f"out = prog.variants[{variant!r}](s)\nprint(s.is_deleted())\n"
    )
    run = bench.run(script, on=case.topology)

    aliased = expected["aliased_bytes"][variant]
    assert (run.exit_code, run.printed) == (0, f"{aliased > 0}\n")
    assert run.stderr.count(WARNING) == warnings
    assert warnings == expected["warnings"][variant]
    program = run.program("jit__lambda")
    assert program.alias_bytes == aliased
    assert program.output_bytes == expected["output_bytes_per_chip"][variant]
    held = program.argument_bytes + program.output_bytes - aliased
    assert {device.in_use_bytes for device in run.summary.hbm} == {held}


def live_arrays(recording: Recording, device: int = 0) -> tuple[int, int]:
    """How many arrays a device holds at the end, and their bytes without padding."""
    events = recording.events[recording.events["device"] == device]
    made, gone = of_kind(events, EventKind.ALLOCATE), of_kind(events, EventKind.FREE)
    alive = made[~np.isin(made["subject"], gone["subject"])]
    shapes = [recording.shape(int(number)) for number in alive["detail"]]
    return len(alive), sum(shape.logical_bytes for shape in shapes if shape)


def calls_before(run: Run, program: int) -> int:
    """How often the program of the same name was called before a program was compiled."""
    (summary,) = (
        p for p in run.summary.programs if any(c.program == program for c in p.compilations)
    )
    own = [c.program for c in summary.compilations]
    events = run.recording.events
    compiled = np.flatnonzero(
        (events["kind"] == EventKind.COMPILE) & (events["program"] == program)
    )
    executions = of_kind(events[: int(compiled[0])], EventKind.EXECUTE)
    return int(np.isin(executions["program"], own).sum())


LAMBDAS = """
import jax, jax.numpy as jnp
a = jax.jit(lambda x: x + 1)(1.)
b = jax.jit(lambda x: x - 1)(1.)
double = jax.jit(lambda x: x * 2)
double(jnp.ones(3)), double(jnp.ones(4))
"""


def test_functions_that_share_a_name_are_not_compiled_again(bench: Bench) -> None:
    run = bench.run(LAMBDAS)

    run.succeeded()
    lambdas = [p for p in run.summary.programs if p.name == "jit__lambda"]
    assert [(p.line.line, p.compiles) for p in lambdas] == [(3, 1), (4, 1), (6, 2)]
    _, _, again = run.report_text.partition("Compiled more than once\n")
    listed = [row for row in again.partition("\n\n")[0].splitlines() if "jit__lambda" in row]
    assert ["double(jnp.ones(3))" in row for row in listed] == [True]


REFUSED = """
import jax, jax.numpy as jnp
huge = jax.jit(lambda x: jnp.zeros((1 << 36,)) + x)
for _ in range(2):
    try:
        huge(1.)
    except jax.errors.JaxRuntimeError:
        print("refused")
"""


def test_what_never_compiled_has_no_sizes(bench: Bench) -> None:
    run = bench.run(REFUSED)

    run.succeeded("refused\n" * 2)
    huge = run.program("jit__lambda")
    assert (huge.compiles, huge.failed, huge.need_bytes, huge.compile_s) == (0, 2, None, None)
    assert "2 more did not compile" in run.report_text
    assert "(it did not compile before)" in run.report_text
