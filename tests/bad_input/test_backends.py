"""JAX that runs elsewhere already, and a machine without libtpu."""

from __future__ import annotations

import pytest

from running import Bench
from vtpu.recording.file import load_recording

USES_JAX = "import jax, jax.numpy as jnp\nx = jax.jit(lambda a: a * 2)(jnp.ones((8, 128)))\n"


def test_attaching_after_jax_started_elsewhere_is_refused(bench: Bench) -> None:
    text = "import jax\njax.devices()\nimport vtpu\nvtpu.attach('v5e-8')\n"
    ended = bench.python(bench.script(text), JAX_PLATFORMS="cpu")

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == (
        "vtpu.errors.UsageError: JAX already runs on cpu in this process and cannot change its "
        "devices any more. Attach the slice before the first array is made (in a notebook: restart "
        "the kernel), or use `vtpu run`."
    )


def test_attaching_after_jax_was_only_imported_works(bench: Bench) -> None:
    text = (
        "import jax, jax.numpy as jnp\nimport vtpu\nvtpu.attach('v5e-8', report=False)\n"
        "print(jax.default_backend(), len(jax.devices()), jnp.ones(3).shape)\n"
        "print(jax.devices('cpu'))\n"
    )
    ended = bench.python(bench.script(text))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "tpu 8 (3,)\n[CpuDevice(id=0)]\n"


@pytest.fixture
def without_libtpu(bench: Bench) -> dict[str, str]:
    """An environment in which Python finds no libtpu."""
    folder = bench.folder / "hides"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['libtpu'] = None\n")
    path = bench.environment.get("PYTHONPATH")
    return {"PYTHONPATH": f"{folder}:{path}" if path else str(folder)}


def test_without_libtpu_the_command_says_what_to_install(
    bench: Bench, without_libtpu: dict[str, str]
) -> None:
    ended = bench.vtpu("run", bench.script("print('started')\n"), **without_libtpu)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: libtpu, the TPU compiler, is not installed here.")
    assert "pip install 'jax[tpu]'" in ended.stderr
    assert "Saved recordings can still be read: `vtpu show run.vtpu`." in ended.stderr
    assert {path.name for path in bench.folder.iterdir()} == {"prog.py", "hides"}


def test_without_libtpu_the_environment_way_says_it_too(
    bench: Bench, without_libtpu: dict[str, str]
) -> None:
    cold = {"VTPU_CACHE_DIR": str(bench.folder / "cache")}
    ended = bench.python(bench.script(USES_JAX), JAX_PLATFORMS="vtpu", **without_libtpu, **cold)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "pip install 'jax[tpu]'" in ended.stderr


def test_without_libtpu_recordings_and_slices_are_shown(
    bench: Bench, without_libtpu: dict[str, str]
) -> None:
    run = bench.run(USES_JAX)
    assert load_recording(run.recording_path).end

    shown = bench.vtpu("show", "run.vtpu", **without_libtpu)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "jit__lambda" in shown.report_text
    slices = bench.vtpu("slices", "v5e-16", **without_libtpu)
    assert (slices.exit_code, slices.stderr) == (0, "")
    assert "v5e:4x4" in slices.stdout
