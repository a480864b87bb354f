"""Predicted times beside published ones.

python -m benchmarks.accuracy [FILE.json ...] [--programs DIR]

Without a file: the measurements that the constants were fitted to, each predicted with constants fitted
without it (`left out`), and without any of its model on its chip (`kind left out`). With files: their rows,
predicted with the constants that are shipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.accuracy.fitting import fit, predicted
from benchmarks.accuracy.rows import Row, load_rows, read_measurements

from vtpu.clock.calibrations import calibration_of

FITTED = Path(__file__).parent.parent / "measurements.json"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A row and what the model says of it, seconds; relative errors with rows left out of the fit."""

    row: Row
    seconds: float
    left_out: float | None = None
    kind_left_out: float | None = None

    @property
    def error(self) -> float:
        """Relative."""
        return self.seconds / self.row.seconds - 1


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument(
        "files", type=Path, nargs="*", help="measurements; default: those fitted to"
    )
    parser.add_argument("--programs", type=Path, help="a folder to keep compiled programs in")
    given = parser.parse_args()
    found = list(
        predict(given.files, given.programs) if given.files else cross_validate(given.programs)
    )
    for line in table(found):
        print(line)


def predict(files: Sequence[Path], programs: Path | None) -> list[Prediction]:
    """Rows of files with the shipped constants."""
    rows = [row for file in files for row in load_rows(read_measurements(file), programs)]
    return [Prediction(row, row.predict().total.seconds) for row in rows]


def cross_validate(programs: Path | None) -> list[Prediction]:
    """The rows that the constants were fitted to, each left out in turn."""
    rows = list(load_rows(read_measurements(FITTED), programs))
    fitted = fit(rows)
    found: list[Prediction] = []
    for row in rows:
        generation = row.slice.generation.name
        alike = [other for other in rows if _kind(other) == _kind(row)]
        errors = [
            predicted(row, fitted.calibration(generation, fitted.without(out))) / row.seconds - 1
            for out in ([row], alike)
        ]
        found.append(
            Prediction(row, row.predict(calibration_of(generation)).total.seconds, *errors)
        )
    return found


def _kind(row: Row) -> tuple[str, str]:
    return row.kind, row.slice.generation.name


def table(found: Sequence[Prediction]) -> list[str]:
    """The table, then the errors by kind of measurement."""
    head = f"{'measurement':30} {'published':>12} {'predicted':>12} {'error':>7} {'left out':>9} {'kind left out':>14}"
    lines = [head, *map(_line, found), ""]
    for kind in dict.fromkeys(p.row.kind for p in found):
        lines += _summary(kind, [p for p in found if p.row.kind == kind])
    return lines


def _line(p: Prediction) -> str:
    cells = "".join(
        f" {'' if e is None else format(e, '+.1%'):>{width}}"
        for e, width in ((p.error, 7), (p.left_out, 9), (p.kind_left_out, 14))
    )
    temporaries = p.row.memory.get("temp_bytes") if p.row.kind == "train_step" else None
    memory = f"temporaries {temporaries / 2**30:.2f} GiB" if temporaries else ""
    notes = ", ".join(filter(None, (p.row.note, memory)))
    return f"{p.row.id:30} {_time(p.row.seconds):>12} {_time(p.seconds):>12}{cells}  {notes}"


def _summary(kind: str, found: Sequence[Prediction]) -> list[str]:
    lines: list[str] = []
    for name in ("error", "left_out", "kind_left_out"):
        errors = [abs(e) for p in found if (e := getattr(p, name)) is not None]
        if errors:
            lines.append(
                f"{kind}, {name.replace('_', ' ')}: {len(errors)} rows, mean {mean(errors):.1%}, "
                f"median {median(errors):.1%}, maximum {max(errors):.1%}"
            )
    return lines


def _time(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds * 1e6:,.1f} us"


if __name__ == "__main__":
    main()
