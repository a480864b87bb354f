"""Which of JAX's test files are run: `tests/conformance/files.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from conformance_lib.expected import FOLDER

_GROUPS = ("no_values", "partly_values", "values")


def default_files(checkout: Path) -> list[str]:
    """The files of all groups that the checkout has, those that need no values first."""
    groups = tomllib.loads((FOLDER / "files.toml").read_text())
    names = [name for group in _GROUPS for name in groups[group]["files"]]
    return [file for file in map(_file, names) if (checkout / "tests" / file).exists()]


def find_files(checkout: Path, asked: list[str]) -> list[str]:
    """The asked files (`array`, `array_test.py`, `pallas/tpu_info`) as the checkout has them.

    Raises:
        SystemExit: there is no such file.
    """
    files = [_file(name) for name in asked]
    for file in files:
        if not (checkout / "tests" / file).exists():
            raise SystemExit(f"{checkout / 'tests'} has no {file}")
    return files


def _file(name: str) -> str:
    return name if name.endswith(".py") else f"{name}_test.py"
