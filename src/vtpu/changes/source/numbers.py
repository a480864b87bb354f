"""Which expressions of a program are numbers, as far as its text tells."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import qualified

_LIBRARIES = ("math", "numpy", "jax.numpy")
_FUNCTIONS = ("sqrt", "rsqrt", "log", "exp", "float", "int", "finfo")
_CONSTANTS = ("inf", "nan", "pi", "e", "min", "max", "eps")
_DEEPEST = 8  # names that are given by names


def is_number(file: SourceFile, node: ast.expr, deepest: int = _DEEPEST) -> bool:
    """Whether an expression is surely a number, no array: `d ** -0.5`, `q.shape[-1]`, `-jnp.inf`."""
    match node:
        case ast.Constant():
            found = isinstance(node.value, int | float)
        case ast.UnaryOp():
            found = is_number(file, node.operand, deepest)
        case ast.BinOp():
            found = all(is_number(file, n, deepest) for n in (node.left, node.right))
        case ast.Subscript():
            found = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        case ast.Call():
            found = _is_of_number(file, node, deepest)
        case ast.Attribute():
            found = _is_constant(file, node, deepest)
        case ast.Name():
            found = deepest > 0 and _is_given_number(file, node.id, deepest - 1)
        case _:
            found = False
    return found


def _is_constant(file: SourceFile, node: ast.Attribute, deepest: int) -> bool:
    """Of a library, `math.pi`, or of a type, `jnp.finfo(x.dtype).min`."""
    is_of_type = isinstance(node.value, ast.Call) and is_number(file, node.value, deepest)
    is_of_library = qualified(file, node.value) in _LIBRARIES
    return node.attr in _CONSTANTS and (is_of_library or is_of_type)


def _is_of_number(file: SourceFile, node: ast.Call, deepest: int) -> bool:
    library, _, function = qualified(file, node.func).rpartition(".")
    if function not in _FUNCTIONS or library not in ("", *_LIBRARIES):
        return False
    return function == "finfo" or all(is_number(file, a, deepest) for a in node.args)


def _is_given_number(file: SourceFile, name: str, deepest: int) -> bool:
    """Whether all that a file ever binds a name to are numbers."""
    values = [v for n in ast.walk(file.tree) if isinstance(n, ast.Assign) for v in _given(n, name)]
    stores = [
        n
        for n in ast.walk(file.tree)
        if (isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load))
        or (isinstance(n, ast.arg) and n.arg == name)
    ]
    return (
        bool(values)
        and len(values) == len(stores)
        and all(
            v == "size" or (isinstance(v, ast.expr) and is_number(file, v, deepest)) for v in values
        )
    )


def _given(node: ast.Assign, name: str) -> list[ast.expr | str]:
    """What an assignment gives a name; `size` for one of an array's sizes."""
    found: list[ast.expr | str] = []
    for target in node.targets:
        if isinstance(target, ast.Name) and target.id == name:
            found.append(node.value)
        elif isinstance(target, ast.Tuple):
            names = [getattr(t, "id", "") for t in target.elts]
            if name not in names:
                continue
            is_shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            same = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names)
            if is_shape:
                found.append("size")
            elif same and isinstance(node.value, ast.Tuple):
                found.append(node.value.elts[names.index(name)])
    return found
