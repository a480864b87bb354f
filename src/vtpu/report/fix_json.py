"""The outcome of a search for fixes as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from vtpu.changes.outcome import FixOutcome
from vtpu.evidence import Basis
from vtpu.report.fix_report import diff_text

FIX_SCHEMA = "vtpu.fix/1"


def fix_as_json(outcome: FixOutcome) -> dict[str, Any]:
    """Every trial with its figures, edits and diff; the baseline, the best, the Pareto set by number."""
    value = TypeAdapter(FixOutcome).dump_python(outcome, mode="json", exclude={"texts"})
    for given, attempt in zip(value["attempts"], outcome.attempts, strict=True):
        given["title"] = attempt.title
        given["diff"] = diff_text(outcome, attempt.changes) if attempt.figures else None
    peak = Basis.SIMULATED if outcome.target.is_script else Basis.COMPILER
    basis = {
        "*.peak_bytes": peak,
        "*.fits": peak,
        "*.step_s": Basis.MODELLED,
        "*.compile_s": Basis.MEASURED,
        "*.compiles": Basis.SIMULATED,
        "*.to_device_bytes": Basis.SIMULATED,
        "*.to_host_bytes": Basis.SIMULATED,
        "wall_s": Basis.MEASURED,
    }
    best = [a["figures"] for a in value["attempts"] if a["number"] == outcome.best]
    return {
        "schema": FIX_SCHEMA,
        "basis": {path: str(b) for path, b in basis.items()},
        **value,
        "best_figures": best[0] if best else None,
    }
