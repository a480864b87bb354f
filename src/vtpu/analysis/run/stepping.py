"""Programs that make the steps of a run: each execution takes what the one before gave, or new data.

The recording does not say which arrays an execution takes. But a result that lives until the same
program ran again and goes then was its state; and an array from the host that goes with the execution
behind it was its data, if the program takes more that stays. What builds a model array by array is no step:
nothing of it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.arrays import Arrays, executions_on
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.recording import ProgramRecord, Recording

FEWEST_STEPS = 10
_MOST_STEPS = 0.8  # of the steps in which the same has to happen
_LEAST_STATE = 4096  # bytes: less may be a counter or a random key
_LEAST_DATA = 1024
_LATEST = 2  # executions behind its own after which what is replaced is gone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stepping:
    """A program that makes steps, and the rows of its executions on a device."""

    program: ProgramRecord
    executions: np.ndarray

    def step_of(self, rows: np.ndarray) -> np.ndarray:
        """In which step each row lies, from 0; -1 before the first."""
        return np.searchsorted(self.executions, rows, side="right") - 1


def find_stepping(recording: Recording, arrays: Arrays) -> tuple[Stepping, ...]:
    """The programs that make at least `FEWEST_STEPS` steps on a device, the one with most of them first."""
    runs = executions_on(recording, arrays.device)
    programs = recording.events["program"][runs]
    found = [
        stepping
        for program in recording.programs
        if (mine := runs[programs == program.number]).size >= FEWEST_STEPS
        for stepping in [Stepping(program=program, executions=mine)]
        if _hands_on(stepping, arrays) or _is_fed(stepping, arrays)
    ]
    return tuple(sorted(found, key=lambda s: -len(s.executions)))


def _hands_on(stepping: Stepping, arrays: Arrays) -> bool:
    """Whether results go when the program ran once more."""
    runs = stepping.executions
    is_state = (arrays.column("program") == stepping.program.number) & (
        arrays.column("bytes") >= _LEAST_STATE
    )
    state = arrays.take(is_state)
    step = stepping.step_of(state.made)
    lasted = np.searchsorted(runs, state.freed) - 1 - step
    handed = step[(lasted >= 1) & (lasted <= _LATEST)]
    return len(np.unique(handed)) >= _MOST_STEPS * (len(runs) - 1)


def _is_fed(stepping: Stepping, arrays: Arrays) -> bool:
    """Whether arrays of the host go with each execution, while more that the program takes stays."""
    runs = stepping.executions
    is_data = (arrays.execution < 0) & (arrays.column("bytes") >= _LEAST_DATA)
    data = arrays.take(is_data)
    next_step = np.searchsorted(runs, data.made)
    lasted = np.searchsorted(runs, data.freed) - next_step
    taken = (lasted >= 1) & (lasted <= _LATEST)
    if len(np.unique(next_step[taken])) < _MOST_STEPS * len(runs):
        return False
    fed = int(data.column("bytes")[taken].sum()) / len(runs)
    return stepping.program.argument_bytes >= 2 * fed


# ---- what grows --------------------------------------------------------------------------------

_FEWEST_KEPT = 8
_LONGEST_GAP = 1 / 3  # of the steps, without an array that stays


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Arrays of one kind that stay step after step: outputs at a `place` of a program, or of the host.

    `row` is where the last was made. `bytes` is what was there at the last step, made in `steps` steps.
    """

    row: int
    program: int
    place: int
    count: int
    bytes: int
    steps: int

    @property
    def bytes_per_step(self) -> float:
        """How much more there is after each step."""
        return self.bytes / self.steps


def find_growth(recording: Recording, arrays: Arrays, lines: LineFinder) -> tuple[Growth, ...]:
    """What stays alive of each step from early on until the last step, largest first.

    All arrays of one kind stay, but for those that go at once: what is bounded, as a cache of the last
    ones, lets some go later. Of one kind are those of one line, program, place and shape.
    """
    makers = _makers(arrays, lines)
    found: dict[tuple[int, ...], Growth] = {}
    for stepping in find_stepping(recording, arrays):
        for key, growth in _growth_over(stepping, arrays, makers):
            found.setdefault(key, growth)
    return tuple(sorted(found.values(), key=lambda g: -g.bytes))


def _makers(arrays: Arrays, lines: LineFinder) -> np.ndarray:
    """A number for the line of each array: a line has another stack when it compiles."""
    stacks, which = np.unique(arrays.column("stack"), return_inverse=True)
    numbers: dict[SourceLine, int] = {}
    by_stack = [numbers.setdefault(lines.line(s), len(numbers)) for s in stacks.tolist()]
    return np.array(by_stack, np.int64)[which]


def _growth_over(
    stepping: Stepping, arrays: Arrays, makers: np.ndarray
) -> Iterator[tuple[tuple[int, ...], Growth]]:
    first, last = stepping.executions[[0, -1]]
    is_inside = (arrays.made > first) & (arrays.made < last)
    inside = arrays.take(is_inside)
    columns = [inside.column(name).astype(np.int64) for name in ("program", "detail")]
    keys = np.stack([makers[is_inside], *columns, inside.place])
    kinds, kind_of = np.unique(keys, axis=1, return_inverse=True)
    kind_of = kind_of.reshape(-1)  # numpy 2.0 alone gives it two dimensions
    often = np.flatnonzero(np.bincount(kind_of, minlength=kinds.shape[1]) >= _FEWEST_KEPT)
    for kind in often.tolist():
        if growth := _growth(stepping, inside.take(kind_of == kind)):
            yield tuple(kinds[:, kind].tolist()), growth


def _growth(stepping: Stepping, arrays: Arrays) -> Growth | None:
    """The arrays of one kind, if they stay."""
    runs = stepping.executions
    stays = arrays.freed > runs[-1]
    gone = arrays.take(~stays)
    late = np.searchsorted(runs, gone.freed) - np.searchsorted(runs, gone.made) > _LATEST
    kept = arrays.take(stays)
    steps = np.unique(stepping.step_of(kept.made))
    if late.any() or len(steps) < _FEWEST_KEPT:
        return None
    gaps = np.diff([0, *steps.tolist(), len(runs) - 1])
    if gaps.max() > max(_LATEST, _LONGEST_GAP * len(runs)):
        return None
    return Growth(
        row=int(kept.made[-1]),
        program=int(kept.column("program")[-1]),
        place=int(kept.place[-1]),
        count=len(kept),
        bytes=int(kept.column("bytes").sum()),
        steps=len(runs) - 1,
    )
