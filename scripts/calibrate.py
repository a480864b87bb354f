"""Fits the time model's constants to `benchmarks/measurements.json` and writes them for every generation.

python -m scripts.calibrate [--programs DIR]

The files are `src/vtpu/clock/calibration/GENERATION.toml`, and `shared.toml` for generations of which there
is no measurement. Errors are those of cross-validation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.accuracy.__main__ import FITTED
from benchmarks.accuracy.fitting import Fit, fit, predicted
from benchmarks.accuracy.rows import Row, load_rows, read_measurements

from vtpu.clock.calibrations import Calibration

_FOLDER = Path(__file__).parent.parent / "src" / "vtpu" / "clock" / "calibration"
_SHARED = "shared"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m scripts.calibrate", description=__doc__)
    parser.add_argument("--programs", type=Path, help="a folder to keep compiled programs in")
    rows = list(load_rows(read_measurements(FITTED), parser.parse_args().programs))
    fitted = fit(rows)
    steps = _errors(fitted, [row for row in rows if row.kind != "matmul"])
    operations = _errors(fitted, [row for row in rows if row.kind == "matmul"])
    for name in (*fitted.generations, _SHARED):
        own = [row for row in rows if row.slice.generation.name == name]
        text = _file(fitted.calibration(name), own, steps, operations)
        (_FOLDER / f"{name}.toml").write_text(text, encoding="utf-8")
        print(name)


def _errors(fitted: Fit, rows: Sequence[Row]) -> list[float]:
    """How far each row is off when it and those of its kind on its chip are left out of the fit."""
    found: list[float] = []
    for row in rows:
        name = row.slice.generation.name
        alike = [r for r in rows if r.slice.generation.name == name]
        seconds = predicted(row, fitted.calibration(name, fitted.without(alike)))
        found.append(abs(seconds / row.seconds - 1))
    return found


def _file(
    calibration: Calibration, own: Sequence[Row], steps: list[float], operations: list[float]
) -> str:
    lines = ["# Written by scripts/calibrate.py. What the constants mean: clock/calibrations.py."]
    said: dict[str, float | int | str] = {
        "operation_error": round(_band(operations), 2),
        "program_error": round(_band(steps), 2),
        "measurements": len(own),
        "provenance": _provenance(own),
    }
    for field in fields(Calibration):
        if field.name == "generation":
            continue
        value = said[field.name] if field.name in said else getattr(calibration, field.name)
        lines.append(f"{field.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _band(errors: Sequence[float]) -> float:
    """A band that most predictions fall in: twice the median error, at least a tenth of all."""
    return max(0.05, 2 * median(errors)) if errors else 0.3


def _provenance(own: Sequence[Row]) -> str:
    if not own:
        return "constants that all generations share; the matrix units' as expected, not measured"
    kinds = {row.kind for row in own}
    return f"fitted to {len(own)} published measurements ({', '.join(sorted(kinds))}) of this generation"


def _toml(value: float | str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value) if isinstance(value, int) else f"{value:.4g}"


if __name__ == "__main__":
    main()
