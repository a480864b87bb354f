"""Which names a function takes from the functions around it, as Python itself sees it."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.jit_sites import Function


def free_variables(file: SourceFile, function: Function) -> set[str]:
    """The names that a function, or one within it, reads from functions around; not those of the module."""
    name = "lambda" if isinstance(function, ast.Lambda) else function.name
    tables = _tables(symtable.symtable(file.text, file.name, "exec"))
    found = [t for t in tables if t.get_name() == name and t.get_lineno() == _line(function)]
    return {n for t in found if isinstance(t, symtable.Function) for n in t.get_frees()}


def _line(function: Function) -> int:
    """Where a function begins for Python: at its first decorator."""
    decorators = function.decorator_list if isinstance(function, ast.FunctionDef) else []
    return min([function.lineno, *(d.lineno for d in decorators)])


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
