"""Single steps that are much longer than the others because the host reads a lot in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.loop import Loop
from vtpu.analysis.run.step_time import Steps
from vtpu.analysis.run.virtual_clock import VirtualRun
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording
from vtpu.units import MIB

_NS = 1e9
_LONGER = 1.5  # than the median
_MUCH = MIB
_MORE = 4  # times what a step reads otherwise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stalls:
    """Steps that reads hold up. `steps` are their numbers, `reads` the places of the reads in them.

    `lost_s` is what these steps take longer than the median of all, `whole_s` what all steps take.
    """

    steps: np.ndarray
    reads: np.ndarray
    bytes: int
    lost_s: float
    longest_s: float
    median_s: float
    whole_s: float


def find_stalls(
    recording: Recording, run: VirtualRun, steps: Steps, loop: Loop, reads: np.ndarray
) -> Stalls | None:
    """The steps that one of `reads` made long; None: there are none. Steps with a compile are left out."""
    lengths = _lengths(run, steps)
    sizes = _sum_by_step(loop, reads, recording.events["bytes"][reads])
    is_quiet = _without_compiles(recording, loop)
    median, usual = np.median(lengths[is_quiet]) if is_quiet.any() else 0.0, np.median(sizes)
    is_stall = is_quiet & (lengths > _LONGER * median) & (sizes >= max(_MUCH, _MORE * usual))
    found = np.flatnonzero(is_stall)
    if not len(found) or is_stall.mean() > 1 / 2:
        return None
    return Stalls(
        steps=found,
        reads=reads[np.isin(loop.steps_of(reads), found)],
        bytes=int(sizes[found].sum()),
        lost_s=float((lengths[found] - median).sum()),
        longest_s=float(lengths[found].max()),
        median_s=float(median),
        whole_s=float(lengths.sum()),
    )


def _lengths(run: VirtualRun, steps: Steps) -> np.ndarray:
    """How long each step takes on the clock, from begin to begin; seconds."""
    mine = run.on_device(steps.device)
    return np.diff(mine["begin_ns"][mine["program"] == steps.program]) / _NS


def _sum_by_step(loop: Loop, events: np.ndarray, values: np.ndarray) -> np.ndarray:
    step = loop.steps_of(events)
    return np.bincount(step[step >= 0], weights=values[step >= 0], minlength=loop.count)


def _without_compiles(recording: Recording, loop: Loop) -> np.ndarray:
    compiles = np.flatnonzero(recording.events["kind"] == EventKind.COMPILE)
    return _sum_by_step(loop, compiles, np.ones(len(compiles))) == 0
