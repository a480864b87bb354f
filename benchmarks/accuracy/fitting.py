"""Fits the constants of the time model to measurements, and says how well it predicts others.

Each constant has an expectation: a likely value and a width, from what is known without any measurement of
time. The fit minimises squared relative errors, in units of how exact a measurement is, plus squared
departures from the expectations in units of their widths. The model is linear enough in its constants to
be fitted in a few Gauss-Newton steps, and for leaving one row out the last step is repeated without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from benchmarks.accuracy.rows import Row
from scipy.optimize import lsq_linear

from vtpu.clock.calibrations import Calibration, shared_calibration

#: Constants that all generations share: expectation and width.
SHARED: Mapping[str, tuple[float, float]] = {
    "hbm": (0.8, 0.1),  # STREAM-like kernels reach 70 to 90 % of a data sheet's bandwidth
    "ici": (0.9, 0.1),  # the scaling book's links against the data sheets': 90 of 100, 45 of 50
    "host_link": (0.75, 0.15),  # PCIe without its packets' headers, then some waiting
    "product_cycles": (
        0.6,
        0.15,
    ),  # so that the compiler's cycles decide only where they are far off
    # bundles that the compiler dumps for 12 kinds of operation on v5e, v5p and v6e, against its cycles
    "other_cycles": (0.25, 0.05),
    "kernel": (0.75, 0.15),
    "start_s": (1.2e-6, 0.5e-6),
    "step_s": (8e-8, 5e-8),
    "transfer_s": (3e-7, 2e-7),
}
#: Of the matrix units, for each generation: the share of its data sheet's rate.
MXU = (0.93, 0.05)
_ROUNDS = 4
_STEP = 0.1  # of a width, for derivatives
_EXACT = {"matmul": 0.06}  # how near the model can be expected to come to a row
_EXACT_STEP = 0.03
_FARTHEST = 3.0  # widths


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants, with what is needed to leave rows out of the fit.

    `point` is in widths from the expectations; `errors` are logarithms of predicted over measured there,
    `slopes` their derivatives.
    """

    rows: tuple[Row, ...]
    generations: tuple[str, ...]
    point: np.ndarray
    errors: np.ndarray
    slopes: np.ndarray

    def calibration(self, generation: str, point: np.ndarray | None = None) -> Calibration:
        """The constants of a generation."""
        return _calibration(generation, self.generations, self.point if point is None else point)

    def without(self, left_out: Sequence[Row]) -> np.ndarray:
        """The point that a fit without some rows has."""
        keep = np.array([row not in left_out for row in self.rows])
        return _solve(self.rows, keep, self.point, self.errors, self.slopes)


def fit(rows: Sequence[Row]) -> Fit:
    """The constants that describe `rows` best."""
    generations = tuple(sorted({row.slice.generation.name for row in rows}))
    point = np.zeros(len(SHARED) + len(generations))
    everything = np.ones(len(rows), bool)
    for _ in range(_ROUNDS):
        errors = _errors(rows, generations, point)
        slopes = _slopes(rows, generations, point, errors)
        found = _solve(rows, everything, point, errors, slopes)
        point = point + (found - point) * 0.7  # the loops of a schedule have kinks: no full steps
    errors = _errors(rows, generations, point)
    return Fit(tuple(rows), generations, point, errors, _slopes(rows, generations, point, errors))


def predicted(row: Row, calibration: Calibration) -> float:
    """Seconds that the model has for a row with these constants."""
    return row.predict(calibration).total.seconds


def _calibration(generation: str, generations: Sequence[str], point: np.ndarray) -> Calibration:
    values = {
        name: float(expected + width * at)
        for (name, (expected, width)), at in zip(SHARED.items(), point, strict=False)
    }
    own = generations.index(generation) if generation in generations else None
    at = point[len(SHARED) + own] if own is not None else 0.0
    values["mxu"] = min(1.0, MXU[0] + MXU[1] * float(at))
    return replace(shared_calibration(), generation=generation, **values)


def _errors(rows: Sequence[Row], generations: Sequence[str], point: np.ndarray) -> np.ndarray:
    return np.array([_error(row, generations, point) for row in rows])


def _error(row: Row, generations: Sequence[str], point: np.ndarray) -> float:
    calibration = _calibration(row.slice.generation.name, generations, point)
    return log(predicted(row, calibration) / row.seconds)


def _slopes(
    rows: Sequence[Row], generations: Sequence[str], point: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    slopes = np.zeros((len(rows), len(point)))
    for i in range(len(point)):
        moved = point.copy()
        moved[i] += _STEP
        own = generations[i - len(SHARED)] if i >= len(SHARED) else None
        for j, row in enumerate(rows):
            if own is None or row.slice.generation.name == own:
                slopes[j, i] = (_error(row, generations, moved) - errors[j]) / _STEP
    return slopes


def _solve(
    rows: Sequence[Row],
    keep: np.ndarray,
    point: np.ndarray,
    errors: np.ndarray,
    slopes: np.ndarray,
) -> np.ndarray:
    weight = np.array([1 / _EXACT.get(row.kind, _EXACT_STEP) for row in rows])[keep]
    left = np.vstack([weight[:, None] * slopes[keep], np.eye(len(point))])
    right = np.concatenate([weight * (slopes[keep] @ point - errors[keep]), np.zeros(len(point))])
    highest = np.full(len(point), _FARTHEST)
    highest[len(SHARED) :] = (1 - MXU[0]) / MXU[1]  # no chip is faster than its data sheet
    return lsq_linear(left, right, bounds=(np.full(len(point), -_FARTHEST), highest)).x


def relative(error: float) -> float:
    """A logarithm of predicted over measured as a relative error."""
    return exp(error) - 1
