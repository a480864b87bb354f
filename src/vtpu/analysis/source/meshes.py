"""The axes of the mesh that a file makes, as it writes them: `Mesh(devices, ("data", "model"))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from vtpu.analysis.source.files import SourceFile

_MAKERS = ("Mesh", "make_mesh", "create_mesh")


def mesh_axes(file: SourceFile) -> tuple[str, ...]:
    """The names of the axes, where the file has one mesh with names that stand there; else none."""
    found = set(_written(file))
    return found.pop() if len(found) == 1 else ()


def _written(file: SourceFile) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and _name(node.func) in _MAKERS:
            values = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "axis_names")]
            yield from (names for value in values if (names := _names(value)))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names(value: ast.expr) -> tuple[str, ...]:
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    texts = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    return tuple(texts) if len(texts) == len(elements) else ()
