"""Puts the repository's root on the path: `benchmarks` is a folder of programs, and not installed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
