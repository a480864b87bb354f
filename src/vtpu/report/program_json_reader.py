"""A program's memory from the JSON that `program_as_json` made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.live_ranges import Occupant
from vtpu.analysis.program.memory import MemoryItem, MemoryUsage, SpaceUsage
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.program.memory import AllocationKind
from vtpu.program.shapes import ArrayShape, parse_shape
from vtpu.report.program_json import PROGRAM_SCHEMA


def is_program(value: Any) -> bool:
    """Whether a JSON value is one of `program_as_json`, by its schema."""
    return isinstance(value, dict) and value.get("schema") == PROGRAM_SCHEMA


def usage_from_json(value: Mapping[str, Any]) -> MemoryUsage:
    """The memory of a program. Which of its buffers share memory is not in the JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not what `program_as_json` gives.
    """
    order = tuple(value["program_order"])
    spaces = tuple(_space(s, len(order)) for s in value["spaces"])
    return MemoryUsage(module=value["program"], order=order, spaces=spaces)


def _space(value: Mapping[str, Any], length: int) -> SpaceUsage:
    color = int(value["color"])
    return SpaceUsage(
        color=color,
        by_kind={AllocationKind(kind): int(size) for kind, size in value["by_kind"].items()},
        items=tuple(_item(b, color) for b in value["buffers"]),
        live=_live(value["curve"], length),
    )


def _live(curve: list[list[int]], length: int) -> np.ndarray:
    """The bytes alive at each instruction, from where they change."""
    live = np.zeros(max(length, 1), np.int64)
    for at, size in curve:
        live[at:] = size
    return live


def _item(value: Mapping[str, Any], color: int) -> MemoryItem:
    shape = parse_shape(value["shape"]) if value["shape"] else None
    occupant = Occupant(
        buffers=(),
        allocation=int(value["allocation"]),
        kind=AllocationKind(value["kind"]),
        color=color,
        offset=int(value["offset"]),
        size=int(value["bytes"]),
        start=int(value["start"]),
        end=int(value["end"]),
        is_traced=value["life_from"] == "heap trace",
    )
    return MemoryItem(
        occupant=occupant,
        name=value["name"],
        opcode=value["opcode"] or "",
        shape=shape if isinstance(shape, ArrayShape) else None,
        role=Role(value["role"]),
        op_name=value["op_name"] or "",
        layer=value["layer"] or "",
        line=_line(value),
        is_donated=bool(value["is_donated"]),
    )


def _line(value: Mapping[str, Any]) -> SourceLine:
    if value["line"] is None:
        return UNKNOWN_LINE
    return SourceLine(value["file"], int(value["line"]), value["function"] or "")
