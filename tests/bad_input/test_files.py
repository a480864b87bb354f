"""A disk that is full, a folder that cannot be written, a run beside another: the program goes on."""

from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from running import REPORT_HEADING, VTPU, Bench, read_report
from vtpu.recording.file import load_recording

SCRIPT = """
import jax, jax.numpy as jnp
step = jax.jit(lambda a: a * 2)
x = jnp.ones((8, 128))
for _ in range(STEPS):
    x = step(x)
print("ran", x.shape)
"""
PRINTED = "ran (8, 128)\n"


def script(bench: Bench, steps: int = 3) -> str:
    return bench.script(SCRIPT.replace("STEPS", str(steps)))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_recording_folder_that_cannot_be_written(bench: Bench) -> None:
    (bench.folder / "file").touch()
    report = bench.folder / "report.json"
    out = ["--out", "file/run.vtpu", "--json", str(report)]
    ended = bench.vtpu("run", *out, script(bench))

    ended.succeeded(PRINTED)
    (problem,) = read_report(report).problems
    assert problem == "the recording cannot be written to file/run.vtpu: Not a directory"
    assert problem in ended.report_text
    assert names_in(bench.folder) == {"file", "prog.py", "report.json"}


def test_a_recording_folder_that_is_missing(bench: Bench) -> None:
    ended = bench.vtpu("run", "--out", "missing/run.vtpu", script(bench))
    ended.succeeded(PRINTED)
    assert "cannot be written to missing/run.vtpu: No such file or directory" in ended.report_text


def test_a_recording_never_takes_the_place_of_what_is_no_file(bench: Bench) -> None:
    pipe = bench.folder / "pipe"
    os.mkfifo(pipe)
    ended = bench.vtpu("run", "--out", "pipe", script(bench))

    ended.succeeded(PRINTED)
    assert "the recording cannot be written to pipe: " in ended.report_text
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names_in(bench.folder) == {"pipe", "prog.py"}


def test_without_the_command_the_report_says_it_too(bench: Bench) -> None:
    program = script(bench)
    ended = bench.python(program, JAX_PLATFORMS="vtpu", VTPU_OUT="missing/run.vtpu")
    assert (ended.exit_code, ended.stdout) == (0, PRINTED)
    assert "cannot be written to missing/run.vtpu: No such file or directory" in ended.stderr


def test_a_cache_that_cannot_be_written(bench: Bench) -> None:
    (bench.folder / "file").touch()
    run = bench.run(SCRIPT.replace("STEPS", "3"), VTPU_CACHE_DIR=str(bench.folder / "file/cache"))

    run.succeeded(PRINTED)
    assert run.program("jit__lambda").calls == 3
    (problem,) = run.summary.problems
    assert "the compile cache" in problem
    assert "cannot be written: Not a directory" in problem
    assert problem in run.report_text


def test_a_damaged_cache_is_filled_again(bench: Bench) -> None:
    cache = bench.folder / "cache"
    text = SCRIPT.replace("STEPS", "3")
    bench.run(text, VTPU_CACHE_DIR=str(cache)).succeeded(PRINTED)
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:20])

    damaged = bench.run(text, VTPU_CACHE_DIR=str(cache))
    damaged.succeeded(PRINTED)
    assert damaged.summary.run.compiler_starts == 1
    assert damaged.summary.problems == ()
    bench.run(text, VTPU_CACHE_DIR=str(cache)).succeeded(PRINTED)


def test_a_disk_that_fills_up_while_the_program_runs(bench: Bench) -> None:
    """The limit on the size of a file stands for the full disk."""
    bench.vtpu("run", script(bench)).succeeded(PRINTED)  # so that nothing is compiled below
    report = bench.folder / "report.json"
    limited = f"ulimit -f 20; exec {VTPU} run --json {report} {script(bench, steps=5000)}"
    ended = bench.command(["bash", "-c", limited])

    ended.succeeded(PRINTED)
    summary = read_report(report)
    assert summary.problems == ("the recording stops early: File too large",)
    assert summary.problems[0] in ended.report_text
    assert 0 < summary.run.num_events < 10_000
    assert summary.run.exit_code == 0
    recording = load_recording(bench.folder / "run.vtpu")
    assert recording.end
    assert recording.problems == ()
    assert 0 < summary.run.covered_s < summary.run.wall_s  # pyright: ignore[reportOperatorIssue]
    assert "the recording covers the first " in ended.report_text


@pytest.mark.parametrize("way", ["command", "environment"])
def test_a_disk_that_is_full_already(bench: Bench, way: str) -> None:
    bench.vtpu("run", script(bench)).succeeded(PRINTED)  # so that nothing is compiled below
    (bench.folder / "run.vtpu").write_text("older")
    start = f"{VTPU} run" if way == "command" else sys.executable
    settings = {"VTPU_OUT": "run.vtpu"} if way == "environment" else {}
    ended = bench.command(
        ["bash", "-c", f"ulimit -f 0; exec {start} prog.py"], JAX_PLATFORMS="vtpu", **settings
    )

    assert (ended.exit_code, ended.stdout) == (0, PRINTED)
    heading, _, report = ended.stderr.partition(REPORT_HEADING)
    if way == "command":
        said = f"the recording cannot be written to {bench.folder}/run.vtpu: File too large"
        assert (heading, report) == (f"vtpu: {said}\n", "")
    else:
        assert heading == ""
        assert "the recording cannot be written to run.vtpu: File too large" in report
        assert "jit__lambda" in report
    assert names_in(bench.folder) == {"prog.py", "run.vtpu"}
    assert (bench.folder / "run.vtpu").read_text() == "older"


def test_two_runs_at_once_do_not_disturb_each_other(bench: Bench) -> None:
    program, cache = script(bench), str(bench.folder / "cache")

    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(bench.vtpu, "run", program, VTPU_CACHE_DIR=cache) for _ in range(2)]
    for run in runs:
        run.result().succeeded(PRINTED)
    assert names_in(bench.folder) == {"prog.py", "cache", "run.vtpu", "run-2.vtpu"}
    for name in ("run.vtpu", "run-2.vtpu"):
        recording = load_recording(bench.folder / name)
        assert recording.end
        assert recording.exit_code == 0
        assert recording.problems == ()
    assert [p for p in Path(cache).rglob("*") if p.name.startswith(".")] == []


def test_an_older_recording_is_kept(bench: Bench) -> None:
    (bench.folder / "run.vtpu").write_text("of yesterday")
    bench.vtpu("run", script(bench)).succeeded(PRINTED)
    assert (bench.folder / "run.vtpu~").read_text() == "of yesterday"
    assert load_recording(bench.folder / "run.vtpu").end
    assert names_in(bench.folder) == {"prog.py", "run.vtpu", "run.vtpu~"}


def test_an_older_recording_is_kept_aside_when_there_is_no_new_one(bench: Bench) -> None:
    (bench.folder / "run.vtpu").write_text("of yesterday")
    ended = bench.vtpu("run", bench.script("print('no jax')\n"))
    assert ended.exit_code == 0
    assert (bench.folder / "run.vtpu~").read_text() == "of yesterday"
    assert names_in(bench.folder) == {"prog.py", "run.vtpu~"}


def test_a_json_file_that_cannot_be_written(bench: Bench) -> None:
    ended = bench.vtpu("run", "--json", "missing/report.json", script(bench))
    assert ended.printed == PRINTED
    assert ended.exit_code == 0
    assert ended.stderr == (
        "vtpu: the report cannot be written to missing/report.json: No such file or directory\n"
    )
    assert "Programs" in ended.report_text


@pytest.mark.parametrize("target", ["run.vtpu", "~"])
def test_the_program_may_change_its_folder(bench: Bench, target: str) -> None:
    (bench.folder / "elsewhere").mkdir()
    text = "import os\nos.chdir('elsewhere')\n" + SCRIPT.replace("STEPS", "3")
    ended = bench.vtpu("run", "--out", target, bench.script(text))
    ended.succeeded(PRINTED)
    assert names_in(bench.folder) == {"prog.py", "elsewhere", target}
    assert names_in(bench.folder / "elsewhere") == set()
