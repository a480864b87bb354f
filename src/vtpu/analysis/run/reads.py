"""Reads for which the host waits until the device is done."""

from __future__ import annotations

import numpy as np

from vtpu.analysis.run.calls import asking_ahead
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds
from vtpu.recording.recording import Recording


def waiting_reads(recording: Recording) -> np.ndarray:
    """The places among the events where the host read from a device's memory and waited for it."""
    events = recording.events
    is_read = events["kind"] == EventKind.DEVICE_TO_HOST
    is_read &= memory_kinds(events) == MemoryKind.DEVICE
    return np.flatnonzero(is_read & ~np.isin(events["stack"], asking_ahead(recording)))
