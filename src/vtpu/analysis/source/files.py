"""The user's files as text and as syntax trees."""

from __future__ import annotations

import ast
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vtpu.analysis.source_lines import SourceLine

Node = ast.AST


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A Python file. `name` is as Python names it in frames.

    Positions of syntax trees are lines from 1 and columns in bytes of UTF-8; `offset` makes of them
    places in `text`.
    """

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Raises SyntaxError for what is no Python."""
        return ast.parse(self.text, self.name)

    @cached_property
    def parents(self) -> dict[Node, Node]:
        """The node that each node stands in."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends."""
        return [line + "\n" for line in self.text.split("\n")]  # `splitlines` parts at more

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its end and indentation; empty where there is none."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def offset(self, line: int, column: int) -> int:
        """The place in `text` of a position in a syntax tree."""
        before = self.lines[line - 1].encode()[:column].decode() if line <= len(self.lines) else ""
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends in `text`."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def source(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        begin, end = self.span(node)
        return self.text[begin:end]

    def function_text(self, name: str) -> str:
        """The text of the functions of a name, qualified or not; empty where there is none."""
        own = name.rpartition(".")[2]
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = (n for n in ast.walk(self.tree) if isinstance(n, kinds) and n.name == own)
        return "\n".join(self.source(node) for node in found)

    def enclosing(self, node: Node, *kinds: type[Node]) -> list[Node]:
        """The nodes of some kinds that a node stands in, innermost first."""
        found: list[Node] = []
        at: Node | None = self.parents.get(node)
        while at is not None:
            if isinstance(at, kinds):
                found.append(at)
            at = self.parents.get(at)
        return found

    def on_line(self, line: int, *kinds: type[Node]) -> list[ast.expr | ast.stmt]:
        """The nodes of some kinds that cover a line, the shortest first."""
        found = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, kinds)
            and isinstance(node, ast.expr | ast.stmt)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        return sorted(found, key=self._length)

    def _length(self, node: ast.expr | ast.stmt) -> int:
        begin, end = self.span(node)
        return end - begin


class SourceFiles:
    """The user's files, each read once. `folder` is what relative names are relative to."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._known: dict[str, SourceFile | None] = {}

    def get(self, name: str) -> SourceFile | None:
        """A file by its name in a frame; None where it cannot be read or is no Python."""
        if name not in self._known:
            self._known[name] = _read(name, Path(self._folder, name))
        return self._known[name]

    def text(self, line: SourceLine) -> str:
        """The text of a line; empty where it cannot be read."""
        file = self.get(line.file) if line.line else None
        return file.line(line.line) if file else ""


def _read(name: str, path: Path) -> SourceFile | None:
    try:
        with tokenize.open(path) as file:  # in the encoding that the file names
            found = SourceFile(name, file.read())
        _ = found.tree
    except (OSError, SyntaxError, ValueError):  # what is no Python has no syntax tree
        return None
    return found
