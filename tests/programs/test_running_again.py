"""What a second run of a program costs, and what it shows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from running import Bench, source_of
from vtpu.program.locations import parse_location

STEP = """
import jax, jax.numpy as jnp
{comment}
@jax.jit
def step(x):
    return jnp.tanh(x @ x) * {number}

print(step(jnp.ones((300, 300))).shape)
"""
PRODUCT_LINE = 6
MOVED = "# A comment that was not there before,\n# of two lines.\n"


def with_empty_cache(bench: Bench, folder: Path) -> Bench:
    environment = {**bench.environment, "VTPU_CACHE_DIR": str(folder)}
    return dataclasses.replace(bench, environment=environment)


def test_a_second_run_starts_no_compiler(bench: Bench, tmp_path: Path) -> None:
    bench = with_empty_cache(bench, tmp_path / "cache")
    program = STEP.format(number=2, comment="")
    first, second = bench.run(program), bench.run(program)
    assert {c.from_cache for p in first.summary.programs for c in p.compilations} == {False}
    assert {c.from_cache for p in second.summary.programs for c in p.compilations} == {True}
    assert (first.summary.run.compiler_starts or 0) > 0
    assert second.summary.run.compiler_starts == 0
    assert [p.name for p in first.summary.programs] == [p.name for p in second.summary.programs]


def test_a_comment_that_moves_lines_costs_no_compile_and_shows_no_old_line(
    bench: Bench, tmp_path: Path
) -> None:
    bench = with_empty_cache(bench, tmp_path / "cache")
    before = bench.run(STEP.format(number=2, comment="")).program("jit_step").line
    again = bench.run(STEP.format(number=2, comment=MOVED))
    assert again.summary.run.compiler_starts == 0
    step = again.program("jit_step")
    assert step.line.line == before.line + MOVED.count("\n")
    assert "print(step(" in source_of(step.line)
    (program,) = (p for p in again.recording.programs if p.name == "jit_step")
    locations = [parse_location(text) for text in program.locations]
    lines = {frame.line for location in locations for frame in location.frames}
    assert lines >= {step.line.line, PRODUCT_LINE + MOVED.count("\n")}


def test_another_number_in_the_program_is_another_program(bench: Bench, tmp_path: Path) -> None:
    bench = with_empty_cache(bench, tmp_path / "cache")
    bench.run(STEP.format(number=2, comment=""))
    changed = bench.run(STEP.format(number=3, comment=""))
    (compilation,) = changed.program("jit_step").compilations
    assert not compilation.from_cache
