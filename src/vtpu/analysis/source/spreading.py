"""What a line says about spreading an array: the call of `device_put`, its sharding, what it spreads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile

_CREATORS = {"zeros", "ones", "full", "empty", "arange", "zeros_like", "ones_like", "full_like"}
_FROM_HOST = {"asarray", "array"}


@dataclass(frozen=True, slots=True)
class Spreading:
    """A call of `device_put`: the text of what it spreads and of the sharding."""

    value: str
    sharding: str


def spreading_on(file: SourceFile, line: int) -> Spreading | None:
    """The call of `device_put` with a sharding in the statement on a line."""
    found = (s for node in file.on_line(line, ast.Call) if (s := _spreading(node)))
    return next(found, None)


def spreading_of(file: SourceFile, name: str) -> Spreading | None:
    """A call of `device_put` with a sharding that spreads a variable."""
    calls = (s for node in ast.walk(file.tree) if (s := _spreading(node)))
    return next((s for s in calls if s.value == name), None)


def _spreading(node: ast.AST) -> Spreading | None:
    if not isinstance(node, ast.Call) or _called(node) != "device_put" or not node.args:
        return None
    given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "device")]
    return Spreading(ast.unparse(node.args[0]), ast.unparse(given[0])) if given else None


def creation_on(file: SourceFile, line: int) -> str | None:
    """The creating call on a line, `jnp.zeros(shape)`, with an argument `device` that is still to come."""
    calls = _calls(file, line, _CREATORS)
    return next((ast.unparse(call) for call in calls if not _has_device(call)), None)


def upload_on(file: SourceFile, line: int) -> str | None:
    """What a line takes from the host: `images` of `jnp.asarray(images)`."""
    return next((ast.unparse(c.args[0]) for c in _calls(file, line, _FROM_HOST) if c.args), None)


def _calls(file: SourceFile, line: int, names: set[str]) -> Iterator[ast.Call]:
    for node in file.on_line(line, ast.Call):
        if isinstance(node, ast.Call) and _called(node) in names:
            yield node


def _has_device(call: ast.Call) -> bool:
    return any(k.arg == "device" for k in call.keywords)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
