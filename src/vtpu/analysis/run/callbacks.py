"""What callbacks of programs cost the host while a run goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtpu.recording.events import EventFlag, EventKind
from vtpu.recording.recording import Recording

_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackUse:
    """The callbacks of one program: how often it was executed, how many values the host got and how many
    bytes, in all. `host_s`: how long Python took for them in one execution, the median, measured here.
    """

    program: int
    executions: int
    values: int
    bytes: int
    host_s: float


def callback_uses(recording: Recording) -> list[CallbackUse]:
    """The programs that called the host."""
    events = recording.events
    calls = np.flatnonzero(events["kind"] == EventKind.CALLBACK)
    spent = np.maximum(0, events["host_ns"][calls]) / _NS
    programs = events["program"][calls]
    return [
        _use(recording, program, calls[programs == program], spent[programs == program])
        for program in np.unique(programs).tolist()
    ]


def _use(recording: Recording, program: int, calls: np.ndarray, spent: np.ndarray) -> CallbackUse:
    events = recording.events
    is_own = (events["kind"] == EventKind.EXECUTE) & (events["program"] == program)
    executions = np.flatnonzero(is_own & (events["flags"] & EventFlag.FAILED == 0))
    execution = np.searchsorted(executions, calls)
    per_execution = np.bincount(execution, weights=spent, minlength=len(executions) + 1)[1:]
    return CallbackUse(
        program=program,
        executions=len(executions),
        values=len(calls),
        bytes=int(events["bytes"][calls].sum()),
        host_s=float(np.median(per_execution)) if len(per_execution) else 0.0,
    )
