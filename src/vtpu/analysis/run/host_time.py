"""What calls cost the thread that makes them."""

from __future__ import annotations

import numpy as np

from vtpu.recording.recording import Recording

_NS = 1e9


def host_seconds(recording: Recording, events: np.ndarray) -> np.ndarray:
    """CPU time that led to events at some places: of their thread, since its call before. Seconds, measured
    on this machine, vtpu's own work apart; 0 of a thread's first call.
    """
    return _between(recording, events, -1, 0)


def host_seconds_after(recording: Recording, events: np.ndarray) -> np.ndarray:
    """CPU time from events at some places to their thread's next call; 0 after its last one."""
    return _between(recording, events, 0, 1)


def _between(recording: Recording, events: np.ndarray, begin: int, end: int) -> np.ndarray:
    """CPU time between the calls before, at and after some, as `begin` and `end` count them."""
    threads, cpu_ns = recording.events["thread"], recording.events["cpu_ns"]
    spent = np.zeros(len(events))
    for thread in np.unique(threads[events]):
        mine = np.flatnonzero((threads == thread) & (cpu_ns >= 0))
        here = np.flatnonzero(threads[events] == thread)
        at = np.searchsorted(mine, events[here])
        known = (at + begin >= 0) & (at + end < len(mine))
        at, here = at[known], here[known]
        spent[here] = np.maximum(0, cpu_ns[mine[at + end]] - cpu_ns[mine[at + begin]]) / _NS
    return spent
