"""The README's commands, in fresh environments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = ROOT / f"constraints/python{sys.version_info.major}.{sys.version_info.minor}.txt"


def copy_of_sources(folder: Path) -> Path:
    """What a clone would hold: nothing that was built here."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


def readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\$ (pip install .*&&.*)$", text, re.MULTILINE)


def shell(command: str, folder: Path, environment: Path, **more: str) -> str:
    """Runs a command with an environment's programs first, as an activated one has them."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("VTPU_", "JAX_", "PYTEST_"))
    }
    variables |= {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def fresh(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with the sources and a fresh environment."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    venv.create(tmp_path / "venv", with_pip=True)
    return copy_of_sources(tmp_path / "vtpu"), tmp_path / "venv"


@pytest.mark.slow
def test_the_first_command_of_the_readme_shows_a_report(
    fresh: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, environment = fresh
    demo, _ = readme_commands()
    more = {"PIP_CONSTRAINT": str(PIN), "VTPU_CACHE_DIR": str(tmp_path / "cache")}
    printed = shell(demo, folder, environment, **more)
    assert "vtpu report" in printed
    assert "v5e-16 = v5e:4x4" in printed
    assert (folder / "run.vtpu").exists()


@pytest.mark.slow
def test_the_second_command_of_the_readme_runs_the_tests(fresh: tuple[Path, Path]) -> None:
    folder, environment = fresh
    _, tests = readme_commands()
    assert tests.endswith("pytest")
    few = f"{tests} tests/units tests/chips/test_slice_names.py"  # these tests run in it themselves
    printed = shell(few, folder, environment, PIP_CONSTRAINT=str(PIN))
    assert re.search(r"\d+ passed", printed)


def test_a_source_install_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    folder = copy_of_sources(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "."],
        cwd=folder,
        env={**os.environ, "CC": "/nonexistent/cc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    printed = ended.stdout + ended.stderr
    assert "needs a C compiler" in printed
    assert "apt-get install gcc" in printed
    assert "Traceback" not in printed
