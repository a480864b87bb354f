"""Lines of the user's program in a sentence."""

from __future__ import annotations

from pathlib import PurePath

from vtpu.analysis.source_lines import SourceLine


def place(line: SourceLine) -> str:
    """A line as people call it, `train.py:26`; its folder is in the evidence."""
    return f"{PurePath(line.file).name}:{line.line}" if line.line else "an unknown line"


def at(line: SourceLine) -> str:
    """The end of a sentence that says where: ` at train.py:26`; empty where the line is not known."""
    return f" at {place(line)}" if line.line else ""
