"""The user's functions and calls in the text of a program."""

from __future__ import annotations

import ast
import re

from vtpu.analysis.source.files import SourceFile

_PATH = re.compile(r"^\[(?P<group>[01])\]\[(?P<key>\d+|'\w+')\](?P<rest>.*)$", re.DOTALL)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def argument_name(file: SourceFile | None, function: str, path: str) -> str:
    """The parameter at JAX's path of an argument: `[0][1]` is the second positional one, `[1]['mode']`
    the keyword. The path itself where the function is not found.
    """
    match = _PATH.match(path)
    if not match:
        return path
    if match["group"] == "1":
        return match["key"].strip("'") + match["rest"]
    names = _parameters(file, function)
    number = int(match["key"]) if match["key"].isdigit() else len(names)
    return names[number] + match["rest"] if number < len(names) else path


def _parameters(file: SourceFile | None, function: str) -> list[str]:
    """The positional parameters of the only function of a name in a file."""
    nodes = ast.walk(file.tree) if file else ()
    found = [n for n in nodes if isinstance(n, _FUNCTIONS) and n.name == function]
    if len(found) != 1:
        return []
    return [argument.arg for argument in (*found[0].args.posonlyargs, *found[0].args.args)]


def kept_in_loop(file: SourceFile | None, line: int) -> list[str]:
    """Names that calls on a line are given and that the loop around it never assigns."""
    if file is None:
        return []
    calls = [node for node in file.on_line(line, ast.Call) if isinstance(node, ast.Call)]
    given = [a for call in calls for a in (*call.args, *(k.value for k in call.keywords))]
    names = dict.fromkeys(a.id for a in given if isinstance(a, ast.Name))
    loops = file.enclosing(calls[0], *_LOOPS) if calls else []
    changed = {n.id for n in ast.walk(loops[-1]) if isinstance(n, ast.Name) and _is_assigned(n)} if loops else set[str]()  # fmt: skip
    return [name for name in names if loops and name not in changed]


def _is_assigned(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)
