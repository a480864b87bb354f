"""Numbers written in the source: the constant that has a size, of a module, a default or an option."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Replace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Written:
    """A whole number in the source under a name: `BATCH = 32`, `def main(batch=32)`, `--batch-size` with 32."""

    file: SourceFile
    name: str
    node: ast.expr
    value: int

    def changed(self, value: int) -> Replace:
        """Another number in its place."""
        begin, end = self.file.span(self.node)
        return Replace(file=self.file.name, begin=begin, end=end, text=str(value))


def written_numbers(file: SourceFile) -> list[Written]:
    """The whole numbers that a file gives names to, in its order."""
    found = [w for node in ast.walk(file.tree) for w in _in_node(file, node)]
    return sorted(found, key=lambda w: (w.node.lineno, w.node.col_offset))


def number_for(
    files: Sequence[SourceFile], values: Sequence[int], words: Sequence[str]
) -> Written | str:
    """The number in the source that is one of `values` and whose name has one of the words; or why not.

    The first of the values that some number has counts; without a telling name the only one that has it.
    """
    numbers = [w for file in files for w in written_numbers(file)]
    for value in values:
        alike = [w for w in numbers if w.value == value]
        named = [w for w in alike if any(word in w.name.lower() for word in words)]
        if len(found := named or alike) == 1:
            return found[0]
        if found:
            places = ", ".join(f"{w.name} (line {w.node.lineno})" for w in found)
            return f"several numbers in the source are {value}: {places}"
    return f"no name in the source is given the number {values[0]}"


def _in_node(file: SourceFile, node: ast.AST) -> Iterator[Written]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield from _assigned(file, node.targets[0], node.value)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from _assigned(file, node.target, node.value)
    elif isinstance(node, ast.arguments):
        placed = [*node.posonlyargs, *node.args]
        pairs = [*zip(placed[::-1], node.defaults[::-1], strict=False)]
        pairs += [(a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d]
        for argument, default in pairs:
            yield from _one(file, argument.arg, default)
    elif isinstance(node, ast.Call):
        yield from _option(file, node)


def _assigned(file: SourceFile, target: ast.expr, value: ast.expr) -> Iterator[Written]:
    """`BATCH = 32`, and `BATCH, WIDTH = 32, 512`."""
    if isinstance(target, ast.Name | ast.Attribute):
        yield from _one(file, file.source(target).rpartition(".")[2], value)
        return
    sides = [s.elts if isinstance(s, ast.Tuple | ast.List) else [] for s in (target, value)]
    if len(sides[0]) == len(sides[1]):
        for inner, element in zip(*sides, strict=True):
            yield from _assigned(file, inner, element)


def _option(file: SourceFile, call: ast.Call) -> Iterator[Written]:
    """`add_argument("--batch-size", default=32)`, and keywords of any call: `Config(batch_size=32)`."""
    first = call.args[0] if call.args else None
    name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    for keyword in call.keywords:
        if keyword.arg == "default":
            yield from _one(file, name, keyword.value)
        elif keyword.arg is not None:
            yield from _one(file, keyword.arg, keyword.value)


def _one(file: SourceFile, name: str, value: ast.expr) -> Iterator[Written]:
    is_number = isinstance(value, ast.Constant) and type(value.value) is int
    if is_number and isinstance(value, ast.Constant) and isinstance(value.value, int):
        yield Written(file=file, name=name, node=value, value=value.value)
