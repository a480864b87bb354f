"""Arrays that the host sends again although their contents are the same."""

from __future__ import annotations

import numpy as np

from vtpu.analysis.run.loop import Loop
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds
from vtpu.recording.recording import Recording

_FEWEST_STEPS = 3
_OFTEN = 0.5  # of the steps


def sent_again(recording: Recording, loop: Loop, *, smallest: int) -> np.ndarray:
    """The places among the events where the host sent what it sends in most steps: to the same device the
    same bytes in the same shape. Transfers of less than `smallest` bytes are left out.
    """
    events = recording.events
    sent = events["kind"] == EventKind.HOST_TO_DEVICE
    sent &= (memory_kinds(events) == MemoryKind.DEVICE) & (events["address"] >= 0)
    places = np.flatnonzero(sent & (events["bytes"] >= smallest))
    names = ("address", "detail", "device")
    same = np.stack([events[name][places].astype(np.int64) for name in names], axis=1)
    group = np.unique(same, axis=0, return_inverse=True)[1].ravel()
    needed = max(_FEWEST_STEPS, _OFTEN * loop.count)
    return places[_steps_of_groups(group, loop.steps_of(places))[group] >= needed]


def _steps_of_groups(group: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """In how many steps each group occurs."""
    inside = steps >= 0
    pairs = np.unique(np.stack([group[inside], steps[inside]]), axis=1)
    return np.bincount(pairs[0], minlength=int(group.max(initial=-1)) + 1)
