"""What if arguments had been donated: outputs take over the blocks of arguments that die.

The recording does not say which arrays an execution took. An array counts as an argument that could
have been donated when a parameter has its shape, an output its bytes, and it was freed before the next
execution on the device and not read by the host in between: nothing can have used it later. Of an
execution that found no room, every live array of a parameter's shape counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from vtpu.analysis.replay.requests import (
    Attempt,
    RequestKind,
    Requests,
    first_output,
    holders,
    renamed,
)
from vtpu.analysis.replay.what_if_context import Change, Columns, Context, Maker
from vtpu.recording.events import EventKind
from vtpu.recording.recording import ProgramRecord
from vtpu.units import counted

_MOST = 5
_MOST_SHAPES = 3
_LEAST_PART = 4096  # of HBM: donating less is no help


@dataclass(slots=True)
class _Donations:
    """Of the programs of one name and line: rows of outputs and of the frees of arguments; of an attempt the
    outputs that need no block of their own.
    """

    pairs: list[tuple[int, int]] = field(default_factory=list)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    largest: int = 0

    def count(self, shape: str, size: int) -> None:
        """One more argument is donated."""
        self.sizes[shape] = size
        self.bytes += size
        self.largest = max(self.largest, size)


def donations(run: Context) -> Iterator[Change]:
    """One change for the programs of each name and line that could have reused arguments."""
    found: dict[Maker, _Donations] = defaultdict(_Donations)
    _of_executions(run, found)
    _of_the_attempt(run, found)
    least = run.recording.run.hbm_bytes // _LEAST_PART
    used = sorted(
        (item for item in found.items() if item[1].largest > least), key=lambda item: -item[1].bytes
    )
    for (line, name), donated in used[:_MOST]:
        what = f"donate the arguments {_shapes_text(donated)} to {name}"
        if not donated.pairs:
            what += " (if nothing needs them later)"
        requests = _apply(run.requests, donated)
        yield Change(kind="donation", what=what, requests=requests, line=line)


def _shapes_text(donated: _Donations) -> str:
    """The largest shapes, the others by number."""
    shapes = sorted(donated.sizes, key=lambda shape: -donated.sizes[shape])
    text = ", ".join(shapes[:_MOST_SHAPES])
    more = len(shapes) - _MOST_SHAPES
    return f"{text} and of {counted(more, 'more shape')}" if more > 0 else text


def _of_executions(run: Context, found: dict[Maker, _Donations]) -> None:
    columns = run.columns
    read = _last_reads(run)
    for at, kind in enumerate(columns.kind):
        program = run.programs.get(columns.program[at]) if kind == RequestKind.RUN else None
        if program is None:
            continue
        outputs = _outputs_before(columns, at)
        free = _not_donated(program) if outputs else Counter[str]()
        for row in _dying_after(columns, at, {columns.block[o] for o in outputs}) if free else ():
            shape, size = columns.shape[row], columns.size[row]
            output = next((o for o in outputs if columns.size[o] == size), None)
            was_read = read.get(columns.buffer[row], -1) > columns.event[at]
            if output is None or was_read or not free[shape]:
                continue
            free[shape] -= 1
            outputs.remove(output)
            donated = found[run.makers[at]]
            donated.pairs.append((output, row))
            donated.count(shape, size)


def _outputs_before(columns: Columns, run: int) -> list[int]:
    """The rows of the outputs of the execution whose run is at row `run`."""
    return list(range(first_output(columns.kind, columns.event, run), run))


def _dying_after(columns: Columns, run: int, outputs: set[int]) -> Iterator[int]:
    """The rows of frees before anything else is executed."""
    for at in range(run + 1, len(columns.kind)):
        kind = columns.kind[at]
        if kind == RequestKind.ALLOCATE and columns.program[at] == 0:
            continue
        if kind != RequestKind.FREE:
            return
        if columns.block[at] not in outputs:
            yield at


def _last_reads(run: Context) -> dict[int, int]:
    """By buffer the last event in which the host read it."""
    events = run.recording.events
    rows = np.flatnonzero(events["kind"] == EventKind.DEVICE_TO_HOST)
    return dict(zip(events["subject"][rows].tolist(), rows.tolist(), strict=True))


def _not_donated(program: ProgramRecord) -> Counter[str]:
    """How many parameters of each shape are not donated."""
    donated = set(program.donated_parameters)
    shapes = enumerate(program.parameter_shapes)
    return Counter(text.partition("{")[0] for i, text in shapes if i not in donated)


def _of_the_attempt(run: Context, found: dict[Maker, _Donations]) -> None:
    """Donations to the execution that found no room at `run.event`."""
    requests = run.requests
    attempt = requests.attempts.get(run.event)
    if attempt is None or not len(requests):
        return
    program = run.programs.get(int(requests.program[-1]))
    if program is None:
        return
    outputs, free = list(attempt.outputs), _not_donated(program)
    events = run.recording.events
    for block, row in holders(run.recording, run.device, run.event).items():
        shape = run.shape_texts[int(events["detail"][row])]
        size = int(events["bytes"][row])
        if block in run.live and size in outputs and free[shape]:
            free[shape] -= 1
            outputs.remove(size)
            found[run.makers[-1]].count(shape, size)
    if len(outputs) < len(attempt.outputs):
        shorter = Attempt(tuple(outputs), attempt.temporaries)
        found[run.makers[-1]].attempts[run.event] = shorter


def _apply(requests: Requests, donated: _Donations) -> Requests:
    names: dict[int, int] = {}
    gone = np.zeros(len(requests), bool)
    for output, free in donated.pairs:
        block = int(requests.block[free])
        names[int(requests.block[output])] = names.get(block, block)
        gone[[output, free]] = True
    changed = replace(
        requests,
        block=renamed(requests.block, names),
        attempts={**requests.attempts, **donated.attempts},
    )
    return changed.take(~gone)
