"""A program as JSON: exact integers, every buffer, the whole curve; its time where it was modelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vtpu.analysis.program.fragmentation import HeapFragmentation, PackedHeap
from vtpu.analysis.program.memory import Group, MemoryItem, MemoryUsage, SpaceUsage, group_by
from vtpu.analysis.program.padding import PaddedItem, SpacePadding
from vtpu.analysis.program.report import ProgramReport
from vtpu.evidence import Basis
from vtpu.findings.finding import Finding
from vtpu.report.failure_json import failure_as_json
from vtpu.report.findings_json import findings_as_json
from vtpu.report.program_time_json import time_as_json

PROGRAM_SCHEMA = "vtpu.program/1"

#: Where the figures come from, by path into the JSON.
PROGRAM_BASIS = {
    "need_bytes": Basis.COMPILER,
    "limit_bytes": Basis.COMPILER,
    "spaces": Basis.COMPILER,
    "failure": Basis.COMPILER,
    "failure.estimates": Basis.MODELLED,
    "figures": Basis.COMPILER,
    "compile_s": Basis.MEASURED,
    "time": Basis.MODELLED,
    "time.operations.flops": Basis.COMPILER,
    "time.operations.hbm_bytes": Basis.COMPILER,
}


def program_as_json(
    report: ProgramReport, findings: Sequence[Finding] | None = None
) -> dict[str, Any]:
    """The JSON value of a program's memory. What is not known is null, `findings` where nobody looked."""
    origin = report.origin
    return {
        "schema": PROGRAM_SCHEMA,
        "basis": {path: str(basis) for path, basis in PROGRAM_BASIS.items()},
        "program": origin.name,
        "source": origin.source or None,
        "slice": origin.slice,
        "num_devices": origin.num_devices,
        "versions": origin.versions,
        "compile_s": origin.compile_s,
        "was_known": origin.was_known,
        "fits": report.fits,
        "need_bytes": report.need_bytes,
        "limit_bytes": report.limit_bytes,
        "error": report.error,
        "failure": failure_as_json(report.failure) if report.failure else None,
        "problems": list(report.problems),
        "spaces": [_space(report.usage, s) for s in report.usage.spaces] if report.usage else [],
        "program_order": list(report.usage.order) if report.usage else [],
        "padding": [_padding(space) for space in report.padding],
        "heaps": [_heap(heap) for heap in report.heaps],
        "time": time_as_json(report.time) if report.time else None,
        "figures": [{"name": f.name, "bytes": f.bytes, "counts": f.counts} for f in report.figures],
        "findings": None if findings is None else findings_as_json(findings),
    }


def _space(usage: MemoryUsage, space: SpaceUsage) -> dict[str, Any]:
    alive = space.at_peak()
    return {
        "name": space.name,
        "color": space.color,
        "total_bytes": space.total_bytes,
        "by_kind": {str(kind): size for kind, size in space.by_kind.items()},
        "peak_bytes": space.peak_bytes,
        "peak_position": space.peak,
        "peak_instruction": usage.order[space.peak] if usage.order else None,
        "free_at_peak_bytes": space.free_at_peak_bytes,
        "at_peak_by_role": _groups(alive, lambda i: str(i.role)),
        "at_peak_by_layer": _groups(alive, lambda i: i.layer),
        "at_peak_by_line": _groups(alive, lambda i: i.place),
        "at_peak_by_dtype": _groups(alive, lambda i: i.dtype),
        "curve": _curve(space.live),
        "buffers": [_item(item) for item in sorted(space.items, key=lambda i: -i.bytes)],
    }


def _groups(
    items: tuple[MemoryItem, ...], key: Callable[[MemoryItem], str]
) -> list[dict[str, Any]]:
    return [_group(g) for g in group_by(items, key)]


def _group(group: Group) -> dict[str, Any]:
    return {
        "key": group.key,
        "bytes": group.bytes,
        "padding_bytes": group.padding_bytes,
        "count": group.count,
    }


def _curve(live: np.ndarray) -> list[list[int]]:
    """Pairs of position and bytes alive from there on."""
    if not len(live):
        return []
    changes = np.flatnonzero(np.diff(live)) + 1
    return [[0, int(live[0])], *([int(at), int(live[at])] for at in changes)]


def _item(item: MemoryItem) -> dict[str, Any]:
    occupant, line = item.occupant, item.line
    return {
        "name": item.name,
        "kind": str(occupant.kind),
        "role": str(item.role),
        "bytes": item.bytes,
        "logical_bytes": item.logical_bytes,
        "padding_bytes": item.padding_bytes,
        "shape": str(item.shape) if item.shape else None,
        "dtype": item.shape.element_type.xla_name if item.shape else None,
        "dims": list(item.shape.dims) if item.shape else None,
        "layout": str(item.shape.layout) if item.shape else None,
        "allocation": occupant.allocation,
        "offset": occupant.offset,
        "start": occupant.start,
        "end": occupant.end,
        "life_from": "heap trace" if occupant.is_traced else "definition and uses",
        "shared_by": len(occupant.buffers),
        "opcode": item.opcode or None,
        "op_name": item.op_name or None,
        "layer": item.layer or None,
        "is_donated": item.is_donated,
        "file": line.file if line.line else None,
        "line": line.line or None,
        "function": line.function or None,
    }


# ---- padding and packing ------------------------------------------------------------------------


def _padding(space: SpacePadding) -> dict[str, Any]:
    return {
        "space": space.name,
        "peak_bytes": space.peak_bytes,
        "logical_bytes": space.logical_bytes,
        "wasted_bytes": space.wasted_bytes,
        "unexplained_bytes": space.unexplained_bytes,
        "not_array_bytes": space.not_array_bytes,
        "arrays": [_padded(row) for row in space.rows],
    }


def _padded(row: PaddedItem) -> dict[str, Any]:
    cause = row.cause
    return {
        "name": row.item.name,
        "shape": str(row.shape),
        "tile": list(row.tile),
        "padded_dims": list(row.padded_dims),
        "logical_bytes": row.logical_bytes,
        "padded_bytes": row.padded_bytes,
        "wasted_bytes": row.wasted_bytes,
        "unexplained_bytes": row.unexplained_bytes,
        "is_at_peak": row.is_at_peak,
        "cause": {
            "kind": str(cause.kind),
            "dimension": cause.dimension,
            "size": cause.size,
            "padded": cause.padded,
            "tile": cause.tile,
            "bytes": row.caused_bytes,
            "sizes_that_fill": list(cause.sizes_that_fill),
        },
    }


def _heap(heap: HeapFragmentation) -> dict[str, Any]:
    replays = heap.replays
    return {
        "space": heap.name,
        "allocation": heap.allocation,
        "allocation_bytes": heap.allocation_bytes,
        "packed_bytes": heap.packed_bytes,
        "tuple_tables": {"count": heap.tables.count, "slot_bytes": heap.tables.slot_bytes},
        "other_bytes": heap.other_bytes,
        "problem": heap.problem,
        "alignment": replays.alignment if replays else None,
        "buffers_compared": replays.compared if replays else None,
        "algorithms": [
            {"name": str(r.algorithm), "heap_bytes": r.heap_bytes, "agreeing": r.agreeing}
            for r in (replays.found if replays else ())
        ],
        "packed": _packed(heap.packed) if heap.packed else None,
    }


def _packed(packed: PackedHeap) -> dict[str, Any]:
    exact, suggestion = packed.exact, packed.suggestion
    return {
        "live_bytes": packed.live_bytes,
        "aligned_bound_bytes": packed.aligned_bytes,
        "peak_instruction": packed.peak_instruction,
        "gap_bytes": packed.gap_bytes,
        "gaps": [
            {
                "offset": gap.offset,
                "bytes": gap.size,
                "below": gap.below.name if gap.below else None,
                "above": gap.above.name if gap.above else None,
                "is_alignment": gap.is_alignment,
            }
            for gap in packed.gaps
        ],
        "suggestion": {
            "algorithm": str(suggestion.algorithm),
            "heap_bytes": suggestion.heap_bytes,
            "saved_bytes": suggestion.saved_bytes,
        }
        if suggestion
        else None,
        "exact": {
            "heap_bytes": exact.heap_bytes,
            "bound_bytes": exact.bound_bytes,
            "is_optimal": exact.is_optimal,
            "left_out": exact.left_out,
            "violations": list(exact.violations),
        }
        if exact
        else None,
    }
