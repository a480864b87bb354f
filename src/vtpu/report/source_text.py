"""The text of source lines, for reports: read once per file, missing where it cannot be read."""

from __future__ import annotations

import linecache

from vtpu.analysis.source_lines import SourceLine
from vtpu.report.document import Line


def with_text(line: SourceLine, width: int = 60) -> Line:
    """A line with its text, cut to `width`."""
    text = linecache.getline(line.file, line.line).strip() if line.line else ""
    if len(text) > width:
        text = text[: width - 1] + "…"
    return Line(line.file, line.line, line.function, text)
