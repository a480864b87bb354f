"""Commands that need no JAX do not load it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from vtpu.cli.main import main
sys.argv = ["vtpu", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {"jax", "jaxlib", "numpy"} & set(sys.modules)
print("loaded:", sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True
    )
    assert ended.stderr == "loaded: []\n"
    assert "vtpu" in ended.stdout


def test_slices_are_listed_without_jax() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, "slices", "v5e-16"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "jax" not in ended.stderr
    assert "v5e:4x4" in ended.stdout
