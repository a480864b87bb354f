"""Where the user's file calls a function of a name."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFiles
from vtpu.analysis.source_lines import SourceLine


def find_calls(files: SourceFiles, file: str, function: str) -> list[SourceLine]:
    """The lines of a file that call `function`, as a name or as the last part of one."""
    found = files.get(file)
    calls = [n for n in ast.walk(found.tree) if isinstance(n, ast.Call)] if found else []
    lines = {call.lineno for call in calls if _last_name(call.func) == function}
    return [SourceLine(file, line, function) for line in sorted(lines)]


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
