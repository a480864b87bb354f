"""A comparison as JSON: exact integers, every difference."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from vtpu.analysis.diff.memory import MemoryDiff
from vtpu.analysis.diff.runs import RunDiff
from vtpu.evidence import Basis

DIFF_SCHEMA = "vtpu.diff/1"

#: Where the figures come from, by path into the JSON.
DIFF_BASIS = {
    "memory": Basis.COMPILER,
    "runs.programs.programs.*.bytes": Basis.COMPILER,
    "runs.programs.programs.*.compiles": Basis.SIMULATED,
    "runs.programs.programs.*.calls": Basis.SIMULATED,
    "runs.programs.memory": Basis.COMPILER,
    "runs.devices": Basis.SIMULATED,
    "runs.transfers": Basis.SIMULATED,
    "runs.failures": Basis.SIMULATED,
}


def diff_as_json(diff: MemoryDiff | RunDiff, before: str, after: str) -> dict[str, Any]:
    """The JSON value of a comparison of what `before` and `after` name.

    `memory` compares two programs, `runs` two recordings; the other one is null. Each pair has a
    `before` and an `after` (null on the side that does not have it), `delta_bytes` and `change`.
    """
    value = _plain(diff)
    return {
        "schema": DIFF_SCHEMA,
        "basis": {path: str(basis) for path, basis in DIFF_BASIS.items()},
        "before": before,
        "after": after,
        "differs": not diff.is_empty,
        "memory": value if isinstance(diff, MemoryDiff) else None,
        "runs": value if isinstance(diff, RunDiff) else None,
    }


def _plain(value: Any) -> Any:
    """Dataclasses as objects of all their fields, the computed ones too; the rest as JSON has it."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, StrEnum):
        return str(value)
    return value
