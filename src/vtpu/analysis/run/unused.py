"""Arrays that nothing used any more, as far as a recording can tell.

Which arrays an execution took is not recorded. So each execution of a program with a parameter of its
shape counts as a use of an array, and each copy between memories as one of all: what is said to be
unused was taken by nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.arrays import Arrays, executions_on
from vtpu.analysis.run.memory import shape_text
from vtpu.analysis.run.stepping import FEWEST_STEPS, Stepping, find_stepping
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

LEAST_BYTES = 1 << 20
_LEAST_PART = 0.5  # of the steps, in which an idle array was of no use


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Idle:
    """Arrays that were there in all steps of a program though nothing used them in `steps` of them."""

    arrays: Arrays
    program: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """An output that a program gives each time and nothing uses. `row` is where the last was made.

    `bytes` are those of one; `count` executions gave one.
    """

    row: int
    program: int
    place: int
    bytes: int
    count: int


def find_idle(recording: Recording, arrays: Arrays, *, is_whole: bool) -> Idle | None:
    """The large arrays from before the steps that nothing used for at least half of them, nor later.

    `is_whole`: the run went to its end. Else what was never used at all may have been for later.
    """
    stepping = next(iter(find_stepping(recording, arrays)), None)
    if stepping is None:
        return None
    used = _last_uses(recording, arrays)
    unused_steps = len(stepping.executions) - 1 - stepping.step_of(used)
    enough = max(FEWEST_STEPS, _LEAST_PART * len(stepping.executions))
    is_idle = (
        _is_there_in_all(stepping, arrays)
        & (unused_steps >= enough)
        & (arrays.column("bytes") >= LEAST_BYTES)
        & (is_whole | (used > arrays.made))
    )
    if not is_idle.any():
        return None
    return Idle(
        arrays=arrays.take(is_idle),
        program=stepping.program.name,
        steps=int(unused_steps[is_idle].min()),
    )


def _is_there_in_all(stepping: Stepping, arrays: Arrays) -> np.ndarray:
    first, last = stepping.executions[[0, -1]]
    return (arrays.made < first) & (arrays.freed > last) & ~arrays.is_passed_on


def find_dropped(recording: Recording, arrays: Arrays) -> tuple[Dropped, ...]:
    """The large outputs that no execution used of a program whose other outputs are used, largest first."""
    is_output = arrays.execution >= 0
    outputs = arrays.take(is_output)
    used = _last_uses(recording, outputs) > outputs.made
    used |= outputs.is_passed_on
    found = [
        dropped
        for program in recording.programs
        for dropped in _dropped_of(outputs, used, outputs.column("program") == program.number)
    ]
    return tuple(sorted(found, key=lambda d: -d.bytes))


def _dropped_of(outputs: Arrays, used: np.ndarray, mine: np.ndarray) -> Iterator[Dropped]:
    own, own_used = outputs.take(mine), used[mine]
    if not own_used.any():
        return
    for place in np.unique(own.place).tolist():
        here = own.place == place
        count, size = int(here.sum()), int(own.column("bytes")[here].max())
        if count >= FEWEST_STEPS and size >= LEAST_BYTES and not own_used[here].any():
            last = own.take(here)
            yield Dropped(
                row=int(last.made[-1]),
                program=int(last.column("program")[-1]),
                place=place,
                bytes=size,
                count=count,
            )


def _last_uses(recording: Recording, arrays: Arrays) -> np.ndarray:
    """The last row where something may have used each array; that of its making where nothing did."""
    copies = np.flatnonzero(recording.events["kind"] == EventKind.COPY)
    used = np.maximum(arrays.looked, _last_before(copies, arrays))
    takers = _takers(recording, arrays)
    details = arrays.column("detail")
    for detail in np.unique(details).tolist():
        same = details == detail
        taken = _last_before(takers[shape_text(recording, detail)], arrays.take(same))
        used[same] = np.maximum(used[same], taken)
    return np.maximum(used, arrays.made)


def _last_before(rows: np.ndarray, arrays: Arrays) -> np.ndarray:
    """Of some rows the last one in each array's life; -1 where there is none.

    An output is there from its execution's row on, which is no use of it.
    """
    if not len(rows):
        return np.full(len(arrays), -1, np.int64)
    at = np.searchsorted(rows, arrays.freed) - 1
    found = rows[np.maximum(at, 0)]
    return np.where((at >= 0) & (found > arrays.made), found, -1)


def _takers(recording: Recording, arrays: Arrays) -> dict[str, np.ndarray]:
    """By shape the rows of executions of programs that take one like it."""
    runs = executions_on(recording, arrays.device)
    programs = recording.events["program"][runs]
    takes: dict[str, list[int]] = defaultdict(list)
    for program in recording.programs:
        for shape in {text.partition("{")[0] for text in program.parameter_shapes}:
            takes[shape].append(program.number)
    none = np.arange(0)
    rows = {shape: runs[np.isin(programs, numbers)] for shape, numbers in takes.items()}
    return defaultdict(lambda: none, rows)
