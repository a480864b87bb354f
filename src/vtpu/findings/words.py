"""How findings name things in their sentences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from vtpu.analysis.source_lines import SourceLine


def at(line: SourceLine) -> str:
    """A line by the name of its file alone: `train.py:12`."""
    return f"{PurePath(line.file).name}:{line.line}" if line.line else line.file


def listed(names: Iterable[str], most: int = 3) -> str:
    """Names in a sentence: `params, m and v`; of many the first ones."""
    found = [*dict.fromkeys(names)]
    shown = found[:most] if len(found) > most + 1 else found
    more = [f"{len(found) - len(shown)} more"] if len(found) > len(shown) else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last
