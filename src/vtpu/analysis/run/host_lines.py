"""Where in the user's program the host spends the time of steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.step_time import Intervals
from vtpu.analysis.run.virtual_clock import Doing, VirtualRun
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.recording import Recording

_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTime:
    """What the host did for so many `seconds` of each step, and the user's line of the call that it came to."""

    doing: Doing
    line: SourceLine
    seconds: float


def host_by_line(
    recording: Recording, run: VirtualRun, when: Intervals, lines: LineFinder
) -> tuple[HostTime, ...]:
    """What the threads that dispatch steps did in parts of these, longest first.

    What a thread does before a call is that call's: where it waits for a batch and then sends it, it is
    the line that sends it.
    """
    found: dict[tuple[Doing, SourceLine], float] = defaultdict(float)
    for thread in np.unique(when.threads):
        mine = when.threads == thread
        stretches = run.stretches[run.stretches["thread"] == thread]
        spent = _covered(stretches, when.begin_ns[mine], when.end_ns[mine])
        for stretch, nanoseconds in zip(stretches[spent > 0], spent[spent > 0], strict=True):
            line = lines.line(int(recording.events["stack"][stretch["event"]]))
            found[Doing(stretch["doing"]), line] += float(nanoseconds)
    rows = [
        HostTime(doing=doing, line=line, seconds=spent / when.steps / _NS)
        for (doing, line), spent in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _covered(stretches: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How much of each stretch lies in intervals, which come one after the other; nanoseconds."""
    bounds = np.stack([begins, ends], axis=1).ravel()
    lengths = np.stack([np.zeros(len(begins)), ends - begins], axis=1).ravel()
    done = np.cumsum(lengths)
    return np.interp(stretches["end_ns"], bounds, done) - np.interp(
        stretches["begin_ns"], bounds, done
    )
