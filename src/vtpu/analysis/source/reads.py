"""Which value a line of the user's reads from the device."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile

_FUNCTIONS = {"float", "int", "bool", "complex", "str", "print", "asarray", "array", "device_get"}
_METHODS = {"item", "tolist"}
_LONGEST = 40


def what_is_read(file: SourceFile | None, line: int) -> str:
    """The expression in `float(loss)`, `np.asarray(x)`, `x.item()`, `print(f"{x}")`; empty if not told."""
    if file is None:
        return ""
    calls = [node for node in file.on_line(line, ast.Call) if isinstance(node, ast.Call)]
    found = [file.source(value) for call in calls for value in _read_by(call)]
    return min((text for text in found if len(text) <= _LONGEST), key=len, default="")


def _read_by(call: ast.Call) -> list[ast.expr]:
    match call.func:
        case ast.Attribute(attr=name, value=value) if name in _METHODS:
            return [value]
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in _FUNCTIONS:
            return [part for argument in call.args for part in _values(argument)]
        case _:
            return []


def _values(argument: ast.expr) -> list[ast.expr]:
    """What is no text of the program's own."""
    if isinstance(argument, ast.JoinedStr):
        return [part.value for part in argument.values if isinstance(part, ast.FormattedValue)]
    return [] if isinstance(argument, ast.Constant | ast.Starred) else [argument]
