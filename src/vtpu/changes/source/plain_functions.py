"""The function that `vtpu fix train:step` names, where it is jitted nowhere."""

from __future__ import annotations

import ast
from pathlib import Path

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.situation import Situation
from vtpu.changes.source.statements import stands_alone


def plain_function(situation: Situation) -> tuple[SourceFile, ast.FunctionDef] | None:
    """The definition of the target's function at the top of its module; None where it is not found."""
    name = situation.target.function
    file = situation.files.get(_file_name(situation)) if name else None
    if file is None:
        return None
    found = [n for n in file.tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return (file, found[0]) if len(found) == 1 and stands_alone(file, found[0]) else None


def _file_name(situation: Situation) -> str:
    module = situation.target.name.rpartition(":")[0]
    path = module if module.endswith(".py") else module.replace(".", "/") + ".py"
    return str(Path(situation.target.folder, path))
