"""Operations that run outside jit, each as a program of its own."""

from __future__ import annotations

import numpy as np

from vtpu.analysis.run.definitions import is_operation
from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import Recording


def eager_executions(recording: Recording) -> np.ndarray:
    """The places among the events where an operation of JAX's was executed by itself."""
    events = recording.events
    operations = [p.number for p in recording.programs if is_operation(p)]
    is_one = (events["kind"] == EventKind.EXECUTE) & np.isin(events["program"], operations)
    return np.flatnonzero(is_one & (events["flags"] & EventFlag.FAILED == 0))
