"""Where a program makes its mesh, and what it is called there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.loops import scope_of
from vtpu.changes.source.names import called

_MAKERS = ("Mesh", "make_mesh")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeshMade:
    """A call that makes a mesh. `maker` is `Mesh` or `make_mesh`, `text` what it is assigned to or empty.

    `axes` are the names of the axes, `sizes` their sizes, each None where they are no literals.
    """

    file: SourceFile
    node: ast.Call
    maker: str
    text: str
    axes: tuple[str, ...] | None
    sizes: tuple[int, ...] | None

    def shape(self, devices: int) -> tuple[tuple[str, int], ...]:
        """The axes with their sizes, of so many devices; empty where they are not known."""
        if self.axes is None:
            return ()
        sizes = (devices,) if len(self.axes) == 1 else self.sizes or ()
        return tuple(zip(self.axes, sizes, strict=True)) if len(sizes) == len(self.axes) else ()


def meshes_in(file: SourceFile) -> list[MeshMade]:
    """The meshes that a file makes, in order."""
    calls = [n for n in ast.walk(file.tree) if isinstance(n, ast.Call)]
    found = [c for c in calls if called(file, c).rpartition(".")[2] in _MAKERS]
    return [_made(file, call) for call in sorted(found, key=lambda c: (c.lineno, c.col_offset))]


def visible_mesh(file: SourceFile, node: ast.AST) -> str | None:
    """How the code around a node spells the one mesh that there is; None where none is to be seen.

    A mesh has a name of the module, of the function around, of its object, or comes with the arguments or
    an import.
    """
    names = dict.fromkeys(text for text in _names(file, node) if text)
    return next(iter(names)) if len(names) == 1 else None


def mesh_called(file: SourceFile, text: str) -> MeshMade | None:
    """The mesh that a file makes under a name; None where it makes none, or several."""
    found = [made for made in meshes_in(file) if made.text == text]
    return found[0] if len(found) == 1 else None


def _names(file: SourceFile, node: ast.AST) -> Iterator[str]:
    scopes = [file.tree, *file.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)]
    in_class = bool(file.enclosing(node, ast.ClassDef))
    for made in meshes_in(file):
        is_own = made.text.startswith("self.") and in_class
        if is_own or scope_of(file, made.node) in scopes:
            yield made.text
    for scope in scopes:
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (
                a.arg for a in (*scope.args.args, *scope.args.kwonlyargs) if a.arg == "mesh"
            )
    for statement in file.tree.body:
        if isinstance(statement, ast.ImportFrom):
            yield from ("mesh" for a in statement.names if (a.asname or a.name) == "mesh")


def _made(file: SourceFile, call: ast.Call) -> MeshMade:
    maker = called(file, call).rpartition(".")[2]
    return MeshMade(
        file=file,
        node=call,
        maker=maker,
        text=_assigned(file, call),
        axes=_axes(call),
        sizes=_sizes(file, call),
    )


def _assigned(file: SourceFile, call: ast.Call) -> str:
    """The name that a mesh gets: by an assignment, by `with … as`, by `:=`."""
    parent = file.parents.get(call)
    target: ast.expr | None = None
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
    elif isinstance(parent, ast.AnnAssign | ast.NamedExpr):
        target = parent.target
    elif isinstance(parent, ast.withitem):
        target = parent.optional_vars
    return file.source(target) if isinstance(target, ast.Name | ast.Attribute) else ""


def _axes(call: ast.Call) -> tuple[str, ...] | None:
    given = call.args[1] if len(call.args) > 1 else None
    given = next((k.value for k in call.keywords if k.arg == "axis_names"), given)
    try:
        value = ast.literal_eval(given) if given is not None else None
    except ValueError:
        return None
    if isinstance(value, str):
        return (value,)
    is_names = isinstance(value, tuple | list) and all(isinstance(v, str) for v in value)
    return tuple(value) if is_names and value else None


def _sizes(file: SourceFile, call: ast.Call) -> tuple[int, ...] | None:
    """The sizes that `make_mesh`, `create_device_mesh` or `reshape` are given as literals, -1 not among them."""
    if not call.args:
        return None
    first = call.args[0]
    given: list[ast.expr] = [first]
    if isinstance(first, ast.Call):
        name = called(file, first).rpartition(".")[2]
        is_reshape = isinstance(first.func, ast.Attribute) and first.func.attr == "reshape"
        given = first.args if is_reshape or name == "create_device_mesh" else []
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    values = [g.value if isinstance(g, ast.Constant) else None for g in given]
    sizes = tuple(v for v in values if isinstance(v, int) and v > 0)
    return sizes if sizes and len(sizes) == len(values) else None
