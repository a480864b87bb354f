"""On which devices things happen, and what moves between them without being asked to."""

from __future__ import annotations

import ast

import numpy as np

from vtpu.analysis.run.sending import asked_for
from vtpu.analysis.source.files import SourceFiles
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import (
    EventFlag,
    EventKind,
    MemoryKind,
    memory_kinds,
    of_kind,
    source_kinds,
)
from vtpu.recording.recording import Recording


def unasked_copies(recording: Recording) -> np.ndarray:
    """The places among the events of copies from one device to another that the program did not ask for:
    a function wanted an argument elsewhere.
    """
    events = recording.events
    is_copy = (events["kind"] == EventKind.COPY) & (memory_kinds(events) == MemoryKind.DEVICE)
    is_copy &= source_kinds(events) == MemoryKind.DEVICE
    is_copy &= events["detail"].astype(np.int64) != events["device"]
    places = np.flatnonzero(is_copy)
    return places[~asked_for(recording, places)]


def devices_used(recording: Recording) -> frozenset[int]:
    """The devices of this host that hold arrays or are a program's, also of one that was only compiled."""
    local = {d.id for d in recording.run.devices if d.host == recording.run.host}
    holding = np.unique(of_kind(recording.events, EventKind.ALLOCATE)["device"]).tolist()
    wanted = {d for p in recording.programs for d in p.device_ids}
    return frozenset({*holding, *wanted} & local)


def executed_under_cpu(
    recording: Recording, lines: LineFinder, files: SourceFiles
) -> dict[SourceLine, int]:
    """Lines within `with jax.default_device(<a CPU>)` that executed programs on the slice, and how often."""
    stacks, counts = np.unique(_executions(recording)["stack"], return_counts=True)
    found: dict[SourceLine, int] = {}
    for stack, count in zip(stacks.tolist(), counts.tolist(), strict=True):
        line = lines.line(stack)
        if _wants_cpu(files, line):
            found[line] = found.get(line, 0) + count
    return found


def _executions(recording: Recording) -> np.ndarray:
    events = recording.events
    is_one = (events["kind"] == EventKind.EXECUTE) & (events["flags"] & EventFlag.FAILED == 0)
    return events[is_one]


def _wants_cpu(files: SourceFiles, line: SourceLine) -> bool:
    file = files.get(line.file) if line.line else None
    if file is None:
        return False
    blocks = [node for node in file.on_line(line.line, ast.With) if isinstance(node, ast.With)]
    return any(
        line.line > node.lineno and _is_cpu(file.tree, item.context_expr)
        for node in blocks
        for item in node.items
    )


def _is_cpu(tree: ast.Module, context: ast.expr) -> bool:
    """Whether a context is `jax.default_device(…)` of a CPU: named in it, or what its name was given."""
    if not isinstance(context, ast.Call) or not ast.unparse(context.func).endswith(
        "default_device"
    ):
        return False
    texts = [ast.unparse(argument) for argument in context.args]
    values = [
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(ast.unparse(t) in texts for t in node.targets)
    ]
    return any("'cpu'" in text for text in (*texts, *values))
