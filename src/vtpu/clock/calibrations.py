"""What was fitted to published measurements: one file per generation in `calibration/`.

The files are written by `python -m scripts.calibrate`; nothing in them is set by hand. A generation
without measurements has what all others have together, and a wider error.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("calibration")
_SHARED = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The constants of the time model of one generation.

    `mxu`, `hbm`, `ici` and `host_link` are fractions of the published rates that are reached.
    `product_cycles` and `other_cycles` are what the compiler's cycles are multiplied by, for fusions with
    a matrix product and for the rest. `kernel` is how much of a Pallas kernel's time its busiest unit is busy.
    `start_s` is what it takes to start a fusion, `step_s` each of its iterations; `collective_s`
    starts a collective; `transfer_s` a copy beside the core.

    The errors are relative, as found by leaving each measurement out in turn: `operation_error` for one
    operation, `program_error` for the whole of a program.
    """

    generation: str
    mxu: float
    hbm: float
    ici: float
    host_link: float
    product_cycles: float
    other_cycles: float
    kernel: float
    start_s: float
    step_s: float
    collective_s: float
    transfer_s: float
    hop_s: float
    operation_error: float
    program_error: float
    measurements: int
    provenance: str


@cache
def calibration_of(generation: str) -> Calibration:
    """The calibration of a generation, or what all others share where it has none of its own."""
    file = _FOLDER / f"{generation}.toml"
    data = tomllib.loads(
        (file if file.exists() else _FOLDER / f"{_SHARED}.toml").read_text("utf-8")
    )
    return read_calibration(generation, data)


def shared_calibration() -> Calibration:
    """What all generations share."""
    return calibration_of(_SHARED)


def read_calibration(generation: str, data: dict[str, object]) -> Calibration:
    """A calibration from a file's contents.

    Raises:
        ValueError: a constant is missing or is none of ours.
    """
    known = {field.name for field in fields(Calibration)} - {"generation"}
    if data.keys() != known:
        raise ValueError(f"constants of a calibration: {sorted(data.keys() ^ known)}")
    return Calibration(generation=generation, **data)  # type: ignore[arg-type]
