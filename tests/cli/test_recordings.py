"""Which files a run leaves: of each of its processes one, and none that is not its own."""

from __future__ import annotations

import json
from pathlib import Path

from running import Bench
from vtpu.recording.file import load_recording

USES = "import jax.numpy as jnp; jnp.ones({})"
STARTS = """
import subprocess, sys
{parent}
for n in (3, 4, 5):
    subprocess.run([sys.executable, "-c", "import jax.numpy as jnp; jnp.ones(%d)" % n], check=True)
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if "vtpu" in path.suffix}


def sizes(folder: Path, *names: str) -> list[int]:
    """The lengths of the arrays that the recorded processes made."""
    found = []
    for name in names:
        recording = load_recording(folder / name)
        found.append(recording.shapes[-1].dims[0])
    return found


def test_processes_that_a_script_starts_in_turn_have_recordings_of_their_own(bench: Bench) -> None:
    files = ["run.vtpu", "run-2.vtpu", "run-3.vtpu", "run-4.vtpu"]
    script = bench.script(STARTS.format(parent=USES.format(2)))
    files = ["run.vtpu", "run-2.vtpu", "run-3.vtpu", "run-4.vtpu"]
    for _ in range(2):  # the second run keeps the first's beside
        ended = bench.vtpu("run", "--json", "report.json", script)
        report = json.loads((bench.folder / "report.json").read_text())
        assert report["other_recordings"] == [str(bench.folder / name) for name in files[1:]]
        assert sizes(bench.folder, *files) == [2, 3, 4, 5]
        paths = ", ".join(str(bench.folder / name) for name in files[1:])
        assert ended.stdout.endswith(f"\nOther processes of this run recorded {paths}\n")
    assert names(bench.folder) == {*files, *(name + "~" for name in files)}


def test_a_script_that_only_starts_others_is_told_where_they_recorded(bench: Bench) -> None:
    ended = bench.vtpu("run", bench.script(STARTS.format(parent="")))
    assert "run-2.vtpu, " in ended.stdout
    assert names(bench.folder) == {"run-2.vtpu", "run-3.vtpu", "run-4.vtpu"}


def test_by_the_environment_too(bench: Bench) -> None:
    script = bench.script(STARTS.format(parent=USES.format(2)))
    bench.python(script, JAX_PLATFORMS="vtpu", VTPU_OUT="run.vtpu", VTPU_REPORT="off")
    files = ["run.vtpu", "run-2.vtpu", "run-3.vtpu", "run-4.vtpu"]
    assert sizes(bench.folder, *files) == [2, 3, 4, 5]
    assert names(bench.folder) == set(files)


def test_a_script_that_never_uses_jax_has_a_json_report(bench: Bench) -> None:
    script = bench.script("import sys; print('hello'); sys.exit(3)")
    ended = bench.vtpu("run", "--on", "v5e-8", "--json", "report.json", script)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (3, "hello\n", "")
    report = json.loads((bench.folder / "report.json").read_text())
    assert report["run"]["slice"] == "v5e:2x4"
    assert (report["run"]["num_devices"], report["run"]["exit_code"]) == (8, 3)
    assert report["programs"] == []
    assert report["problems"] == ["the program ended without using the TPU: nothing was recorded"]


def test_such_a_report_can_be_printed(bench: Bench) -> None:
    ended = bench.vtpu("run", "--json", "-", bench.script(""))
    assert json.loads(ended.stdout)["schema"] == "vtpu.run/1"


def test_an_older_recording_is_not_taken_for_that_of_a_run_without_one(bench: Bench) -> None:
    bench.vtpu("run", bench.script(USES.format(3)))
    bench.vtpu("run", bench.script("print('hello')"))
    assert names(bench.folder) == {"run.vtpu~"}
    assert bench.vtpu("show", "run.vtpu").exit_code == 2
    assert bench.vtpu("show", "run.vtpu~").exit_code == 0
