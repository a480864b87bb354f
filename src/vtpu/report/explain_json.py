"""What `vtpu explain` found, as JSON: exact integers; sizes from messages with their rounding."""

from __future__ import annotations

from typing import Any

from vtpu.analysis.explanation.dumps import DumpExplained
from vtpu.analysis.explanation.explanations import ProfileExplained, ProgramExplained, TextExplained
from vtpu.analysis.explanation.printed_dumps import PrintedExplained
from vtpu.analysis.explanation.recordings import RecordingExplained
from vtpu.analysis.program.module_values import ModuleValues, Value
from vtpu.evidence import Basis
from vtpu.report.explain_report import Explained
from vtpu.report.failure_json import failure_as_json, plain
from vtpu.report.program_json import program_as_json

EXPLAIN_SCHEMA = "vtpu.explain/1"

#: Where the figures come from, by path into an element of `explained`.
EXPLAIN_BASIS = {
    "findings": Basis.COMPILER,
    "findings.advice": Basis.MODELLED,
    "program": Basis.COMPILER,
    "failure": Basis.COMPILER,
    "failure.estimates": Basis.MODELLED,
    "values": Basis.COMPILER,
    "profile": Basis.JAX,
    "programs.need_bytes": Basis.COMPILER,
}


def explained_as_json(explained: tuple[Explained, ...]) -> dict[str, Any]:
    """The JSON value. A size of a message is `{"bytes": …, "rounding": …}`; unknown is null."""
    return {
        "schema": EXPLAIN_SCHEMA,
        "basis": {path: str(basis) for path, basis in EXPLAIN_BASIS.items()},
        "explained": [_explained(e) for e in explained],
    }


def _explained(explained: Explained) -> dict[str, Any]:
    match explained:
        case TextExplained():
            return {"kind": "messages", **plain(explained)}
        case PrintedExplained():
            return {"kind": "printed report", **plain(explained)}
        case ProfileExplained():
            return {"kind": "memory profile", **plain(explained)}
        case ProgramExplained():
            return {"kind": "program", **_program(explained)}
        case DumpExplained():
            return {
                "kind": "dump",
                "name": explained.name,
                "programs": [plain(p) for p in explained.programs],
                "chosen": _program(explained.chosen) if explained.chosen else None,
                "printed": plain(explained.printed) if explained.printed else None,
                "problems": list(explained.problems),
            }
        case RecordingExplained():
            return {
                "kind": "recording",
                "name": explained.name,
                "programs": [plain(p) for p in explained.programs],
                "failures": [_program(f) for f in explained.failures],
                "errors": [plain(e) for e in explained.errors],
                "chosen": _program(explained.chosen) if explained.chosen else None,
                "problems": list(explained.problems),
            }


def _program(explained: ProgramExplained) -> dict[str, Any]:
    return {
        "name": explained.name,
        "program": program_as_json(explained.report),
        "failure": failure_as_json(explained.failure) if explained.failure else None,
        "values": _values(explained.values) if explained.values else None,
    }


def _values(values: ModuleValues) -> dict[str, Any]:
    return {
        "module": values.module,
        "is_scheduled": values.is_scheduled,
        "has_tiles": values.has_tiles,
        "instructions": values.instructions,
        "argument_bytes": values.argument_bytes,
        "result_bytes": values.result_bytes,
        "donated_bytes": values.donated_bytes,
        "arguments": [_value(v) for v in values.arguments],
        "results": [_value(v) for v in values.results],
        "largest": [_value(v) for v in values.largest],
    }


def _value(value: Value) -> dict[str, Any]:
    line = value.line
    return {
        "name": value.name,
        "opcode": value.opcode,
        "shape": str(value.shape),
        "bytes": value.bytes,
        "padding_bytes": value.padding_bytes,
        "role": str(value.role) if value.role else None,
        "layer": value.layer or None,
        "file": line.file if line.line else None,
        "line": line.line or None,
        "function": line.function or None,
    }
