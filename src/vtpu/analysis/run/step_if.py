"""How long a step would be if the host had done something else in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vtpu.analysis.run.step_time import find_steps
from vtpu.analysis.run.virtual_clock import run_on_clock
from vtpu.analysis.time.programs import Durations
from vtpu.recording.events import select
from vtpu.recording.recording import Recording


def step_if(
    recording: Recording,
    events: np.ndarray,
    program: int,
    durations: Durations,
    host_speed: float = 1.0,
) -> float:
    """The median step of `program` in seconds, had `events` happened instead of those recorded.

    What the host computed stays with the calls that are left.
    """
    changed = replace(recording, events=events)
    return find_steps(changed, run_on_clock(changed, durations, host_speed), program).median_s


def without(events: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Events without those at some places; none of these may have filled a buffer, for what fills one is known by its number."""
    keep = np.ones(len(events), bool)
    keep[places] = False
    return select(events, keep)


def without_bytes(events: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Events of which those at some places move nothing."""
    changed = events.copy()
    changed["bytes"][places] = 0
    return changed
