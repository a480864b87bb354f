"""What if arrays had been made in another order, or freed earlier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vtpu.analysis.replay.requests import RequestKind, holders
from vtpu.analysis.replay.what_if_context import Change, Context, rows_of_frees
from vtpu.recording.events import EventKind
from vtpu.units import counted


def reordering(run: Context) -> Iterator[Change]:
    """What stays is placed before all that comes and goes.

    It stays when it is in use at the end, as most of what its line and program made. An output with
    the shape of a parameter does not count: it may follow from what it replaces.
    """
    rows: list[int] = []
    for made in run.rows_by_maker.values():
        live = [row for row in made if int(run.requests.block[row]) in run.live]
        if 2 * len(live) > len(made):
            rows += [row for row in live if not _may_be_an_update(run, row)]
    first = np.sort(np.array(rows, np.int64))
    if np.array_equal(first, np.arange(len(first))):
        return
    rest = np.setdiff1d(np.arange(len(run.requests)), first, assume_unique=True)
    those = "array that stays" if len(first) == 1 else f"{len(first):,} arrays that stay"
    what = f"make the {those} before those that come and go"
    requests = run.requests.take(np.concatenate([first, rest]))
    yield Change(kind="reordering", what=what, requests=requests)


def _may_be_an_update(run: Context, row: int) -> bool:
    program = run.programs.get(run.columns.program[row])
    shapes = program.parameter_shapes if program else ()
    return any(text.partition("{")[0] == run.columns.shape[row] for text in shapes)


def freeing_earlier(run: Context) -> Iterator[Change]:
    """Arrays go as soon as nothing can use them any more.

    That is when no later program takes their shape and the host neither reads nor copies them.
    """
    frees = rows_of_frees(run.requests)
    positions = np.arange(len(run.requests), dtype=np.float64)
    moved = 0
    for row, use in last_uses(run).items():
        free = frees.get(int(run.requests.block[row]))
        if free is not None and free > use + 1:
            positions[free] = use + 0.5
            moved += 1
    if moved:
        what = f"free {counted(moved, 'array')} as soon as nothing uses {_them(moved)} any more"
        requests = run.requests.take(np.argsort(positions, kind="stable"))
        yield Change(kind="freeing earlier", what=what, requests=requests)


def freeing_unused(run: Context) -> Iterator[Change]:
    """What is in use at the end and nothing can have used in the second half of the run goes then."""
    requests = run.requests
    last = {
        row: use
        for row, use in last_uses(run).items()
        if int(requests.block[row]) in run.live and use < len(requests) / 2
    }
    if not last:
        return
    rows = np.array(list(last), np.int64)
    positions = np.append(np.arange(len(requests)), np.array(list(last.values())) + 0.5)
    freed = np.full(len(rows), RequestKind.FREE, np.uint8)
    longer = requests.take(np.append(np.arange(len(requests)), rows))
    longer = replace(longer, kind=np.append(requests.kind, freed))
    what = (
        f"free {counted(len(rows), 'array')} that nothing had used for half of the run; no answer if the "
        f"program still needs {_them(len(rows))}"
    )
    changed = longer.take(np.argsort(positions, kind="stable"))
    yield Change(kind="freeing unused arrays", what=what, requests=changed)


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def last_uses(run: Context) -> dict[int, int]:
    """By the row of each allocation the row after which nothing can use it. What was donated is left
    out: its block had several owners.
    """
    columns = run.columns
    taken, looked, passed_on = _last_taken(run), _last_looked_at(run), _passed_on(run)
    found: dict[int, int] = {}
    run_row = -1
    for row in range(len(columns.kind) - 1, -1, -1):
        if columns.kind[row] == RequestKind.RUN:
            run_row = row  # an output is in use until its program ran
        elif columns.kind[row] == RequestKind.ALLOCATE:
            number = columns.buffer[row]
            made = run_row if columns.program[row] else row
            if number not in passed_on:
                used = max(taken.get(columns.shape[row], -1), looked.get(number, -1))
                found[row] = max(made, used, row)
    return dict(reversed(found.items()))


def _last_taken(run: Context) -> dict[str, int]:
    """By shape the last row of a program with such a parameter."""
    found: dict[str, int] = {}
    last: dict[int, int] = {}
    runs = np.isin(run.requests.kind, (RequestKind.RUN, RequestKind.ATTEMPT))
    for row in np.flatnonzero(runs).tolist():
        last[int(run.requests.program[row])] = row
    for number, row in last.items():
        program = run.programs.get(number)
        for text in program.parameter_shapes if program else ():
            shape = text.partition("{")[0]
            found[shape] = max(row, found.get(shape, -1))
    return found


def _last_looked_at(run: Context) -> dict[int, int]:
    """By buffer the last row before which the host read it. A copy counts as a look at all arrays."""
    events = run.recording.events
    reached = np.maximum.accumulate(run.requests.event)
    found: dict[int, int] = {}
    for event in np.flatnonzero(events["kind"] == EventKind.DEVICE_TO_HOST).tolist():
        found[int(events["subject"][event])] = int(np.searchsorted(reached, event))
    copies = np.flatnonzero(events["kind"] == EventKind.COPY)
    if len(copies):
        last = int(np.searchsorted(reached, copies[-1]))
        for block in np.unique(run.requests.block).tolist():
            found[block] = max(last, found.get(block, -1))
    return found


def _passed_on(run: Context) -> frozenset[int]:
    """Blocks whose last owner is not the first."""
    subject = run.recording.events["subject"]
    last = holders(run.recording, run.device, run.event + 1)
    return frozenset(block for block, row in last.items() if int(subject[row]) != block)
