"""A profile's tables as JSON: exact, with the basis of every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from vtpu.analysis.measured.against import Comparison
from vtpu.analysis.measured.summary import MeasuredProfile
from vtpu.evidence import Basis

TRACE_SCHEMA = "vtpu.trace/1"


def trace_as_json(
    profile: MeasuredProfile, names: Sequence[str], comparison: Comparison | None
) -> dict[str, Any]:
    """The JSON value of a profile, and of its comparison with a recording where there is one."""
    basis = Basis.MODELLED if profile.hardware.is_modelled else Basis.MEASURED
    value = TypeAdapter(MeasuredProfile).dump_python(profile, mode="json")
    found: dict[str, Any] = {
        "schema": TRACE_SCHEMA,
        "basis": {
            "profile": str(basis),
            "against.programs.*.predicted_s": str(Basis.MODELLED),
            "against.programs.*.measured_s": str(basis),
        },
        "files": list(names),
        "profile": value,
    }
    if comparison:
        found["against"] = TypeAdapter(Comparison).dump_python(comparison, mode="json")
    return found
