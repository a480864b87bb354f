"""A result as JSON: exact integers, a versioned schema.

The schema is that of the result's dataclasses. `schema` names it; its number grows when a field
changes its meaning or goes away, not when one is added.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vtpu.analysis.replay.summary import ReplaySummary
from vtpu.analysis.run.summary import RunSummary
from vtpu.errors import UsageError
from vtpu.evidence import Basis
from vtpu.findings.finding import Finding
from vtpu.report.findings_json import FindingRow, findings_as_json

RUN_SCHEMA = "vtpu.run/1"
REPLAY_SCHEMA = "vtpu.replay/1"

#: Where the figures of a run come from, by path into the JSON.
RUN_BASIS = {
    "programs.*_bytes": Basis.COMPILER,
    "programs.compile_s": Basis.MEASURED,
    "programs.compiles": Basis.SIMULATED,
    "programs.failed": Basis.SIMULATED,
    "programs.calls": Basis.SIMULATED,
    "programs.compilations.reason": Basis.JAX,
    "programs.compilations.out_of_memory": Basis.COMPILER,
    "hbm": Basis.SIMULATED,
    "hbm.limit_bytes": Basis.COMPILER,
    "transfers": Basis.SIMULATED,
    "failures": Basis.SIMULATED,
    "run.wall_s": Basis.MEASURED,
    "time": Basis.MODELLED,
    "time.compile_s": Basis.MEASURED,
    "time.executions": Basis.SIMULATED,
}

#: Where the figures of a replay come from.
REPLAY_BASIS = {
    "devices": Basis.SIMULATED,
    "devices.varied": Basis.MODELLED,
    "devices.*.time_s": Basis.MEASURED,
    "allocator.hbm_bytes": Basis.COMPILER,
}


def replay_as_json(summary: ReplaySummary) -> dict[str, Any]:
    """The JSON value of a replay."""
    value = TypeAdapter(ReplaySummary).dump_python(summary, mode="json")
    basis = {path: str(b) for path, b in REPLAY_BASIS.items()}
    return {"schema": REPLAY_SCHEMA, "basis": basis, "fits": summary.fits, **value}


def run_as_json(summary: RunSummary, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    """The JSON value of a run; `findings` are null where nobody looked."""
    value = TypeAdapter(RunSummary).dump_python(summary, mode="json")
    basis = {path: str(b) for path, b in RUN_BASIS.items()}
    found = None if findings is None else findings_as_json(findings)
    return {"schema": RUN_SCHEMA, "basis": basis, **value, "findings": found}


def run_json_schema() -> dict[str, Any]:
    """The JSON Schema of what `run_as_json` gives."""
    schema = TypeAdapter(RunSummary).json_schema(mode="serialization")
    found = TypeAdapter(tuple[FindingRow, ...] | None).json_schema(mode="serialization")
    schema["title"] = RUN_SCHEMA
    schema["$defs"] = dict(sorted({**schema["$defs"], **found.pop("$defs")}.items()))
    schema["properties"] = {
        "schema": {"const": RUN_SCHEMA},
        "basis": {"type": "object", "additionalProperties": {"type": "string"}},
        **schema["properties"],
        "findings": found,
    }
    return schema


def write_json(value: dict[str, Any], target: str) -> None:
    """Writes a JSON value to a file in UTF-8, or to standard output for `-`.

    Raises:
        UsageError: the file cannot be written.
    """
    text = _json_text(value, sys.stdout.encoding if target == "-" else "utf-8")
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        try:
            Path(target).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"the report cannot be written to {target}: {error.strerror}"
            ) from error


def _json_text(value: dict[str, Any], encoding: str) -> str:
    """JSON that the encoding can hold: other characters as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, ensure_ascii=True) + "\n"
    return text
