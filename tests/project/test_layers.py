"""The design's layers, as import-linter reads them from `pyproject.toml`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_point_down() -> None:
    command = str(Path(sys.executable).with_name("lint-imports"))
    ended = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
