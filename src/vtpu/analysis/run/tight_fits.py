"""Programs that found their piece of memory only just, while far more was free elsewhere in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.replay.addresses import Gaps, gaps_between, recorded_blocks
from vtpu.analysis.run.arrays import arrays_of, executions_on
from vtpu.recording.recording import ProgramRecord, Recording

_LEAST_PART = 0.05  # of HBM: a program that takes less finds room
_MARGIN = 0.05  # of the piece that it takes
_ELSEWHERE = 0.10  # of HBM, free outside of that piece


@dataclass(frozen=True, slots=True, kw_only=True)
class TightFit:
    """The last execution of a program and the gaps when its outputs were placed. Bytes.

    Its temporaries take one piece at the bottom of memory.
    """

    device: int
    row: int
    program: ProgramRecord
    gaps: Gaps

    @property
    def left_bytes(self) -> int:
        """What was left of the piece at the bottom."""
        return self.gaps.at_bottom - self.program.temp_bytes

    @property
    def elsewhere_bytes(self) -> int:
        """What was free outside of it."""
        return self.gaps.free - self.gaps.at_bottom


def find_tight_fits(recording: Recording, device: int) -> tuple[TightFit, ...]:
    """The large programs of a device that nearly found no piece at their last execution."""
    found = [f for f in _last_fits(recording, device) if _is_tight(f, recording.run.hbm_bytes)]
    return tuple(sorted(found, key=lambda f: f.left_bytes))


def _is_tight(fit: TightFit, hbm_bytes: int) -> bool:
    is_near = fit.left_bytes < _MARGIN * fit.program.temp_bytes
    return is_near and fit.elsewhere_bytes >= _ELSEWHERE * hbm_bytes


def _last_fits(recording: Recording, device: int) -> Iterator[TightFit]:
    large = [p for p in recording.programs if p.temp_bytes >= _LEAST_PART * recording.run.hbm_bytes]
    if not large:
        return
    arrays = arrays_of(recording, device)
    runs = executions_on(recording, device)
    programs = recording.events["program"][runs]
    for program in large:
        mine = runs[programs == program.number]
        if len(mine):
            row = int(mine[-1])
            outputs = arrays.made[arrays.execution == row]
            placed = int(np.max(outputs, initial=row))
            blocks = recorded_blocks(recording, device, placed + 1)
            gaps = gaps_between(blocks, recording.run.hbm_bytes)
            yield TightFit(device=device, row=row, program=program, gaps=gaps)
