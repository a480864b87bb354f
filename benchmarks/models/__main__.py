"""Builds a table's training step, compiles it for its slice, and prints its memory.

python -m benchmarks.models TABLE.toml
python -m benchmarks.models calibration.json ROW
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.models.calibration import from_calibration
from benchmarks.models.compiling import CompiledStep, compile_step
from benchmarks.models.model import Model
from benchmarks.models.run import Run
from benchmarks.models.tables import TableError, read_table
from benchmarks.models.weights import count_parameters

from vtpu.errors import VtpuError


def main() -> int:
    """The command. Exit code 0: it fits; 1: it does not; 2: the table is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("table", type=Path, help="a TOML or JSON file with [model] and [run]")
    parser.add_argument("row", nargs="?", help="the id of a row, of a file of measurements")
    given = parser.parse_args()
    try:
        model, run = _read_row(given.table, given.row) if given.row else read_table(given.table)
        print(f"{count_parameters(model):,} parameters on {run.slice_name}")
        found = compile_step(model, run)
    except (TableError, OSError, ValueError, VtpuError) as error:
        print(f"{given.table}: {error}", file=sys.stderr)
        return 2
    print(_describe(found))
    return 1 if found.record.error else 0


def _read_row(path: Path, name: str) -> tuple[Model, Run]:
    measured = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in measured["rows"]}
    if name not in rows:
        raise TableError(f"there is no row {name!r}. Rows: {', '.join(rows)}.")
    groups = measured.get("xla_flag_groups", {})
    return from_calibration(rows[name], measured["models"], groups, rows.values())


def _describe(found: CompiledStep) -> str:
    record = found.record
    lines = [f"flag not taken by this compiler: {flag}" for flag in found.dropped]
    if record.error:
        return "\n".join([*lines, record.error])
    figures = {
        "arguments": record.argument_bytes,
        "results": record.output_bytes,
        "of them in donated arguments": record.alias_bytes,
        "temporaries": record.temp_bytes,
        "code": record.generated_code_bytes,
        "HBM needed": found.need_bytes or 0,
        "temporaries in host memory": record.host_temp_bytes,
    }
    lines += [f"{name:30}{size / 2**30:10.2f} GiB per device" for name, size in figures.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
