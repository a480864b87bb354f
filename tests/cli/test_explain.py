"""`vtpu explain` as people use it: messages, dumps, modules, memory profiles, recordings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from answers import load_case
from modules import BUFFER_BYTES, hlo_module, hlo_proto
from running import Bench, Ended
from vtpu.reading.wire import write_field

DUMP_PROGRAM = Path(__file__).parents[1] / "dump_program.py"
TOO_MANY_ROWS = 4_000_000
PROFILE = """
import sys
import jax, jax.numpy as jnp
kept = [jnp.ones((n, 128)) for n in (100, 200)]
jax.profiler.save_device_memory_profile(sys.argv[1])
"""


def explained(bench: Bench, *names: str) -> list[dict[str, Any]]:
    """What `vtpu explain --json -` prints of files."""
    ended = bench.vtpu("explain", *names, "--json", "-")
    assert (ended.exit_code, ended.stderr) == (0, "")
    value = json.loads(ended.stdout)
    assert value["schema"] == "vtpu.explain/1"
    return value["explained"]


def shown(bench: Bench, *names: str) -> str:
    """The report as people read it."""
    ended = bench.vtpu("explain", *names)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


def dump(backend: str, rows: int, folder: Path) -> Ended:
    """Has XLA dump a training step for a backend; standard error is the compiler's log."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "TPU_"))}
    command = [sys.executable, str(DUMP_PROGRAM), backend, str(rows), str(folder)]
    run = subprocess.run(command, env=kept, capture_output=True, text=True, check=True, timeout=300)
    return Ended(exit_code=0, stdout=run.stdout, stderr=run.stderr)


@pytest.fixture(scope="module")
def too_large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dump of a step that does not fit a chip, with the log beside it."""
    folder = tmp_path_factory.mktemp("too_large")
    ended = dump("tpu", TOO_MANY_ROWS, folder / "dump")
    (folder / "log.txt").write_text(ended.stdout + ended.stderr)
    return folder


# ---- modules -----------------------------------------------------------------------------------


def test_a_proto_with_an_assignment_is_a_program(bench: Bench) -> None:
    (bench.folder / "step.pb").write_bytes(hlo_proto(12))
    (program,) = explained(bench, "step.pb")
    assert program["kind"] == "program"
    assert program["program"]["need_bytes"] == 5 * BUFFER_BYTES
    assert program["failure"] is None
    assert program["values"] is None


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_module_without_an_assignment_says_that_no_allocation_is_known(
    bench: Bench, is_wrapped: bool
) -> None:
    module = hlo_module(12)
    wrapped = write_field(1, module) + write_field(2, b"")
    (bench.folder / "step.pb").write_bytes(wrapped if is_wrapped else module)
    (program,) = explained(bench, "step.pb")
    assert program["program"]["need_bytes"] is None
    assert program["values"]["argument_bytes"] == BUFFER_BYTES
    assert [v["name"] for v in program["values"]["arguments"]] == ["x"]
    assert program["values"]["largest"][0]["bytes"] == BUFFER_BYTES
    assert "No allocation is known" in shown(bench, "step.pb")


# ---- dumps -------------------------------------------------------------------------------------


def test_a_dump_of_many_modules_shows_the_largest_or_the_one_asked_for(bench: Bench) -> None:
    folder = bench.folder / "dump"
    folder.mkdir()
    for number, name in enumerate(["small", "large"]):
        proto = hlo_proto(30 if name == "large" else 1)
        (folder / f"module_{number:04}.jit_{name}.cl_1.after_optimizations.hlo.pb").write_bytes(
            proto
        )
    (found,) = explained(bench, "dump")
    assert [p["name"] for p in found["programs"]] == ["jit_large", "jit_small"]
    assert found["chosen"]["name"] == "module_0001.jit_large.cl_1"
    (asked,) = explained(bench, "dump", "--module", "jit_small")
    assert asked["chosen"]["name"] == "module_0000.jit_small.cl_1"
    ended = bench.vtpu("explain", "dump", "--module", "jit_huge")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "no module named jit_huge; it has jit_large, jit_small" in ended.stderr


@pytest.mark.slow
def test_the_dump_and_the_log_of_a_failed_compile_agree(bench: Bench, too_large: Path) -> None:
    folder, log = str(too_large / "dump"), str(too_large / "log.txt")
    found, text = explained(bench, folder, log)
    failure = found["chosen"]["failure"]
    assert failure["memory"] == "HBM"
    assert failure["over_bytes"] == failure["need_bytes"] - failure["limit_bytes"]
    by_space = {s["name"]: s for s in found["chosen"]["program"]["spaces"]}
    assert by_space["HBM"]["total_bytes"] == failure["need_bytes"]
    stated = [f["asked"] for f in text["findings"] if f["code"] == "E1000"]
    assert stated
    for size in stated:
        assert abs(size["bytes"] - failure["need_bytes"]) <= 2 * size["rounding"]
    assert "Out of memory at compile time" in shown(bench, folder)


@pytest.mark.slow
def test_without_protos_the_texts_of_a_dump_tell_the_same(bench: Bench, too_large: Path) -> None:
    (whole,) = explained(bench, str(too_large / "dump"))
    texts = bench.folder / "texts"
    texts.mkdir()
    for path in (too_large / "dump").glob("*.txt"):
        (texts / path.name).write_bytes(path.read_bytes())
    (printed,) = explained(bench, "texts")
    assert printed["programs"][0]["need_bytes"] == whole["programs"][0]["need_bytes"]
    need = whole["chosen"]["program"]["need_bytes"]
    assert printed["chosen"]["program"]["need_bytes"] == need
    for path in texts.glob("*.txt"):
        if "-buffer-assignment.txt" not in path.name:
            path.unlink()
    (reports,) = explained(bench, "texts")
    assert reports["chosen"] is None
    assert sum(size for name, size in reports["printed"]["totals"] if "HBM" in name) == need


@pytest.mark.slow
def test_a_usage_report_alone_has_the_totals(bench: Bench, too_large: Path) -> None:
    (whole,) = explained(bench, str(too_large / "dump"))
    for ending in ("pb", "txt"):
        folder = bench.folder / ending
        folder.mkdir()
        (path,) = (too_large / "dump").glob(f"*memory-usage-report.{ending}")
        (folder / path.name).write_bytes(path.read_bytes())
        (found,) = explained(bench, ending)
        assert found["chosen"] is None
        totals = dict(found["printed"]["totals"])
        assert totals["HBM"] == whole["programs"][0]["need_bytes"]


@pytest.mark.slow
def test_a_dump_for_the_cpu_is_explained_alike(bench: Bench) -> None:
    dump("cpu", 512, bench.folder / "dump")
    (found,) = explained(bench, "dump")
    (program,) = [p for p in found["programs"] if p["name"] == "jit_step"]
    assert program["backend"] == "cpu"
    assert program["need_bytes"] == found["chosen"]["program"]["need_bytes"] > 0


# ---- messages, profiles, recordings ------------------------------------------------------------


def test_unknown_lines_of_a_log_are_shown(bench: Bench) -> None:
    (bench.folder / "train.log").write_text(
        "step 1 loss 2.5\n"
        "Could not allocate 536870912 bytes in memory TPU_0(host=0,(0,0,0,0)); 268435456 bytes "
        "allocatable, 805306368 bytes available\n"
        "goodbye\n"
    )
    (text,) = explained(bench, "train.log")
    (finding,) = text["findings"]
    assert (finding["template"], finding["cause"]) == ("T12", "fragmented")
    assert finding["asked"] == {"bytes": 536870912, "rounding": 0}
    assert text["unknown"] == [[1, "step 1 loss 2.5"], [3, "goodbye"]]
    report = shown(bench, "train.log")
    assert "goodbye" in report
    assert "not in one piece" in report


def test_markup_and_control_characters_of_a_log_are_shown_as_they_are(bench: Bench) -> None:
    (bench.folder / "log").write_text(
        "[red]colour[/red] \x1b]0;title\x07\n"
        "Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0\n"
    )
    report = shown(bench, "log")
    assert "[red]colour[/red]" in report
    assert "\x1b" not in report


def test_a_memory_profile_is_shown_by_line_and_kind(bench: Bench) -> None:
    script = bench.folder / "profile.py"
    script.write_text(PROFILE)
    bench.python("profile.py", "memory.prof", JAX_PLATFORMS="cpu").succeeded()
    (found,) = explained(bench, "memory.prof")
    profile = found["profile"]
    buffers = [g for g in profile["groups"] if g["kind"] == "buffer"]
    assert sum(g["bytes"] for g in buffers) == 300 * 128 * 4
    assert {g["line"]["line"] for g in buffers} == {4}
    assert sum(g["bytes"] for g in profile["groups"]) == profile["total_bytes"]


def test_a_recording_shows_its_programs_and_why_one_did_not_compile(bench: Bench) -> None:
    case = load_case("hbm-adam-replicated")
    bench.run(case.program, on=case.topology)
    (found,) = explained(bench, "run.vtpu")
    first, *others = found["programs"]
    assert first["name"] == "jit_adam"
    assert first["need_bytes"] == found["failures"][0]["failure"]["need_bytes"]
    needs = [p["need_bytes"] for p in others]
    assert needs == sorted(needs, reverse=True)
    report = shown(bench, "run.vtpu")
    assert "https://openxla.org/xla/errors/error_1000" in report
    assert "donate arguments" in report
    assert "In detail: jit_adam" in report


def test_several_files_are_explained_one_after_the_other(bench: Bench) -> None:
    (bench.folder / "step.pb").write_bytes(hlo_proto(5))
    (bench.folder / "log").write_text("RESOURCE_EXHAUSTED: Attempting to allocate 1.00G. That was")
    report = shown(bench, "step.pb", "log")
    assert report.startswith("vtpu explain step.pb\n")
    assert "\n\nvtpu explain log\n" in report
    assert "it is cut" in report
