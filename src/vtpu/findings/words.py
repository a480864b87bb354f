"""How findings name things in their sentences."""

from __future__ import annotations

from pathlib import PurePath

from vtpu.analysis.source_lines import SourceLine


def at(line: SourceLine) -> str:
    """A line by the name of its file alone: `train.py:12`."""
    return f"{PurePath(line.file).name}:{line.line}" if line.line else line.file
