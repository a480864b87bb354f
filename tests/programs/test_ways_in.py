"""A program comes onto the slice by the command, by the environment, or by `vtpu.attach`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from running import REPORT_HEADING, Bench, read_report, source_of
from vtpu.analysis.run.summary import summarize
from vtpu.recording.file import load_recording

SCRIPTS = Path(__file__).with_name("scripts")
LOSSES = "step 3 loss 127.216\nstep 6 loss 169.464\n"


def test_a_module_of_a_package_gets_its_own_arguments(bench: Bench) -> None:
    shutil.copytree(SCRIPTS / "trainer", bench.folder / "trainer")
    report = bench.folder / "report.json"

    own = ["--steps", "3", "-m", "hello", "--width", "256"]
    ended = bench.vtpu("run", "--json", str(report), "-m", "trainer.train", *own)

    ended.succeeded(f"(256, 256) hello __main__ {own}\n")
    summary = read_report(report)
    assert summary.run.command[1:] == ("-m", "trainer.train", *own)
    (step,) = (p for p in summary.programs if p.name == "jit_step")
    assert (step.compiles, step.calls, step.argument_bytes) == (1, 3, 256 * (256 + 32) * 4)
    assert step.line.file == str(bench.folder / "trainer/train.py")
    assert "w = model.step(w, x)" in source_of(step.line)


def test_a_program_gets_options_that_look_like_ours(bench: Bench) -> None:
    script = "import sys, jax.numpy as jnp\njnp.ones(3)\nprint(sys.argv[1:])\n"
    run = bench.run(script, "--on", "v4-8", "--help", "-x", "--", "--json")
    run.succeeded("['--on', 'v4-8', '--help', '-x', '--', '--json']\n")
    assert run.summary.run.slice == "v5e:2x4"


def test_the_environment_alone_is_enough(bench: Bench) -> None:
    script = str(SCRIPTS / "jit_grad_loop.py")
    out = bench.folder / "kept.vtpu"

    ended = bench.python(script, JAX_PLATFORMS="vtpu", VTPU_ON="v5e-16", VTPU_OUT=str(out))

    assert (ended.exit_code, ended.stdout) == (0, LOSSES)
    heading, _, report = ended.stderr.partition(REPORT_HEADING)
    assert heading == ""  # nothing else on standard error
    assert "v5e-16 = v5e:4x4 (TPU v5 lite), 16 devices" in report
    assert "host 0 of 4, 4 devices" in report
    recording = load_recording(out)
    assert [p.name for p in recording.programs].count("jit_step") == 1
    assert recording.end


def test_the_environment_can_ask_for_no_report(bench: Bench) -> None:
    script = str(SCRIPTS / "jit_grad_loop.py")
    ended = bench.python(script, JAX_PLATFORMS="vtpu", VTPU_REPORT="off")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, LOSSES, "")
    assert list(bench.folder.iterdir()) == []  # and none was asked to be saved


def test_without_being_asked_for_the_slice_stays_away(bench: Bench) -> None:
    ended = bench.python("-c", "import jax; print(jax.devices())", JAX_PLATFORMS="cpu")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "[CpuDevice(id=0)]\n", "")


def test_another_platform_that_is_asked_for_keeps_the_slice_away(bench: Bench) -> None:
    script = bench.script("import jax.numpy as jnp\nprint(jnp.ones(3).devices())\n")
    ended = bench.python(script, JAX_PLATFORMS="cpu", VTPU_ON="v5e-4")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "{CpuDevice(id=0)}\n", "")


def test_attach_at_the_top_of_a_script(bench: Bench) -> None:
    script = """
import vtpu
vtpu.attach("v5p-16", host=1, out="attached.vtpu")
import jax, jax.numpy as jnp
total = jax.jit(lambda x: x.sum())(jnp.ones((8, 128)))
print(jax.process_index(), jax.process_count(), len(jax.devices()), total.shape)
"""
    ended = bench.python(bench.script(script))

    assert (ended.exit_code, ended.stdout) == (0, "1 2 8 ()\n")
    assert ended.stderr.startswith(REPORT_HEADING)
    recording = load_recording(bench.folder / "attached.vtpu")
    assert (recording.run.slice, recording.run.host) == ("v5p:2x2x2", 1)


def test_attach_to_a_second_slice_is_refused(bench: Bench) -> None:
    script = """
import vtpu
vtpu.attach("v5e-8", report=False)
vtpu.attach("v5e:2x4")
vtpu.attach("v5p-8")
"""
    ended = bench.python(bench.script(script))
    assert ended.exit_code == 1
    assert "This process already runs on a virtual v5e:2x4" in ended.stderr
    assert "line 5" in ended.stderr


def test_attach_again_to_the_slice_that_runs_changes_nothing(bench: Bench) -> None:
    script = """
import jax, vtpu
print(vtpu.attach("v5p-16", host=1, report=False))
x = jax.numpy.ones(3)
again = vtpu.attach("v5p:2x2x2", host=1)
print(again is vtpu.attach("v5p-16", host=1, report=False), (x + 1).shape)
"""
    ended = bench.python(bench.script(script))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "<virtual v5p:2x2x2, 8 devices, host 1 of 2>\nTrue (3,)\n"


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    """Attach, train, look, as one does in a notebook."""
    cells = [
        'import vtpu\nvtpu.attach("v5e-8", out="notebook.vtpu")',
        "import jax, jax.numpy as jnp\nprint(len(jax.devices()), jax.devices()[0].device_kind)",
        "@jax.jit\ndef step(w, x):\n    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)",
        "w, x = jnp.ones((256, 256)), jnp.ones((64, 256))\nfor _ in range(3):\n    w = step(w, x)",
        "print(w.shape)",
    ]
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    return made


def test_attach_in_the_first_cell_of_a_notebook(
    bench: Bench, notebook: nbformat.NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)

    NotebookClient(notebook, resources={"metadata": {"path": bench.folder}}, timeout=300).execute()

    printed = [out.text for cell in notebook.cells for out in cell.outputs if "text" in out]
    assert printed == ["8 TPU v5 lite\n", "(256, 256)\n"]
    recording = load_recording(bench.folder / "notebook.vtpu")
    assert recording.end, "the recording was not finished when the kernel ended"
    summary = summarize(recording)
    (step,) = (p for p in summary.programs if p.name == "jit_step")
    assert (step.compiles, step.calls, step.line.line) == (1, 3, 3)  # in a cell's third line
    assert "ipykernel" not in step.line.file.split("/")
