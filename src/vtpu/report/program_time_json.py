"""A program's time as JSON: every operation, in seconds of one execution."""

from __future__ import annotations

from typing import Any

from vtpu.analysis.source_lines import SourceLine
from vtpu.analysis.time.report import Communication, PathStep, TimeReport, Unmodelled
from vtpu.analysis.time.rows import OperationRow, TimeGroup
from vtpu.clock.resources import Resource


def time_as_json(report: TimeReport) -> dict[str, Any]:
    """The JSON value of a program's time. What is not known is null."""
    time = report.time
    return {
        "seconds": time.total.seconds,
        "low": time.total.low,
        "high": time.total.high,
        "is_lower_bound": time.is_lower_bound,
        "calibration": time.calibration,
        "core_busy_s": time.core_busy,
        "idle_s": report.idle_s,
        "flops": time.flops,
        "model_flops": report.model_flops,
        "hbm_bytes": time.hbm_bytes,
        "peak_flops_per_s": time.peak_flops_per_s,
        "hbm_bytes_per_s": time.hbm_bytes_per_s,
        "mfu": report.mfu,
        "hfu": report.hfu,
        "hbm_utilisation": report.hbm_utilisation,
        "bound": _resource(report.bound),
        "bounds": [{"resource": _resource(r), "seconds": s} for r, s in report.bounds.items()],
        "without": [
            {
                "resource": str(w.resource),
                "seconds": w.seconds,
                "then_bound_by": _resource(w.next_bound),
            }
            for w in report.what_ifs
        ],
        "phases": [_group(g) for g in report.phases],
        "layers": [_group(g) for g in report.layers],
        "kinds": [_group(g) for g in report.kinds],
        "communication": [_communication(c) for c in report.communications],
        "critical_path": [_step(s) for s in report.path],
        "without_model": _unmodelled(report.unmodelled),
        "loops_that_count_once": list(report.uncounted_loops),
        "operations": [_operation(r) for r in report.rows],
    }


def _resource(resource: Resource | None) -> str | None:
    return str(resource) if resource else None


def _group(group: TimeGroup) -> dict[str, Any]:
    return {
        "key": group.key,
        "seconds": group.seconds,
        "waited_s": group.waited_s,
        "flops": group.flops,
        "hbm_bytes": group.hbm_bytes,
        "count": group.count,
    }


def _communication(one: Communication) -> dict[str, Any]:
    return {
        "collective": one.kind,
        "runs": one.runs,
        "on_links_s": one.alone_s,
        "exposed_s": one.exposed_s,
        "received_bytes": one.link_bytes,
        **_place(one.line),
    }


def _step(step: PathStep) -> dict[str, Any]:
    return {
        "operation": step.row.instruction.name,
        "seconds": step.seconds,
        "is_beside_core": step.is_beside,
    }


def _unmodelled(missing: Unmodelled) -> dict[str, Any]:
    return {
        "operations": [r.instruction.name for r in missing.rows],
        "flops": None if missing.has_unknown_flops else missing.flops,
        "hbm_bytes": missing.hbm_bytes,
        "share_of_flops": None if missing.has_unknown_flops else missing.flops_share,
        "share_of_hbm_bytes": missing.hbm_share,
    }


def _operation(row: OperationRow) -> dict[str, Any]:
    following, seconds = row.next_bound
    estimate = row.time.time
    return {
        "name": row.instruction.name,
        "opcode": row.instruction.opcode,
        "kind": row.kind,
        "op_name": row.op_name or None,
        "layer": row.layer or None,
        "phase": str(row.phase),
        **_place(row.line),
        "runs": row.time.runs,
        "seconds": None if estimate is None else row.seconds,
        "core_s": None if estimate is None else row.core_s,
        "waited_s": None if estimate is None else row.waited_s,
        "alone_s": row.alone_s,
        "one_run_s": None if estimate is None else [estimate.low, estimate.seconds, estimate.high],
        "modelled_from": str(row.time.source) if row.time.source else None,
        "busy_s": {str(r): s for r, s in row.time.busy.items()},
        "bound": _resource(row.bound),
        "then_bound_by": _resource(following),
        "then_seconds": seconds if following else None,
        "flops": row.flops,
        "hbm_bytes": row.hbm_bytes,
        "received_bytes": row.link_bytes,
        "flops_per_byte": row.intensity,
        "of_peak": row.of_peak,
    }


def _place(line: SourceLine) -> dict[str, Any]:
    return {
        "file": line.file if line.line else None,
        "line": line.line or None,
        "function": line.function or None,
    }
