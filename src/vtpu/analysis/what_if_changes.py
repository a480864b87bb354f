"""Changes of a run that may help against fragmentation: each makes another stream of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vtpu.analysis.memory import shape_text
from vtpu.analysis.requests import Attempt, RequestKind, Requests, holders
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventKind
from vtpu.recording.recording import ProgramRecord, Recording

_MOST_LINES = 3
_FEWEST_BATCHED = 8
_FEWEST_SIZES = 3


Maker = tuple[SourceLine, str]
"""Who asks: a line, and the name of the program, or nothing for the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Another run: what would have been done differently (at one line, where it is one)."""

    kind: str
    what: str
    requests: Requests
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Requests as lists, which are faster to walk through; with the buffer of each and its shape."""

    kind: list[int]
    block: list[int]
    size: list[int]
    program: list[int]
    event: list[int]
    buffer: list[int]
    shape: list[str]


@dataclass(frozen=True, kw_only=True)
class Context:
    """A run up to the request that is looked at, which is the last of `requests` and of `event`."""

    recording: Recording
    device: int
    requests: Requests
    event: int
    lines: LineFinder

    @cached_property
    def programs(self) -> Mapping[int, ProgramRecord]:
        """Programs by number."""
        return {p.number: p for p in self.recording.programs}

    @cached_property
    def columns(self) -> Columns:
        """The requests as lists."""
        requests = self.requests
        events = self.recording.events[requests.event]
        return Columns(
            kind=requests.kind.tolist(),
            block=requests.block.tolist(),
            size=requests.size.tolist(),
            program=requests.program.tolist(),
            event=requests.event.tolist(),
            buffer=events["subject"].tolist(),
            shape=[self.shape_texts[n] for n in events["detail"].tolist()],
        )

    @cached_property
    def shape_texts(self) -> Mapping[int, str]:
        """Shapes by number, as XLA prints them without layouts."""
        numbers = np.unique(self.recording.events["detail"]).tolist()
        return {number: shape_text(self.recording, number) for number in numbers}

    @cached_property
    def live(self) -> frozenset[int]:
        """The blocks in use at the end."""
        kind, block = self.requests.kind, self.requests.block
        made = block[kind == RequestKind.ALLOCATE].tolist()
        return frozenset(made) - frozenset(block[kind == RequestKind.FREE].tolist())

    @cached_property
    def last_uses(self) -> dict[int, int]:
        """By the row of each allocation the row after which nothing can use it."""
        return _last_uses(self)

    @cached_property
    def makers(self) -> list[Maker]:
        """Of each request its line, and the name of its program or nothing."""
        stacks = self.recording.events["stack"][self.requests.event].tolist()
        programs = self.requests.program.tolist()
        names = {number: p.name for number, p in self.programs.items()}
        known: dict[tuple[int, int], Maker] = {
            pair: (self.lines.line(pair[0]), names.get(pair[1], ""))
            for pair in set(zip(stacks, programs, strict=True))
        }
        return [known[pair] for pair in zip(stacks, programs, strict=True)]

    @cached_property
    def rows_by_maker(self) -> dict[Maker, list[int]]:
        """The rows of allocations by line and program, those with the most bytes first."""
        found: dict[Maker, list[int]] = defaultdict(list)
        for row in np.flatnonzero(self.requests.kind == RequestKind.ALLOCATE).tolist():
            found[self.makers[row]].append(row)
        size = self.requests.size
        return dict(sorted(found.items(), key=lambda item: -int(size[item[1]].sum())))


# ---- batching ----------------------------------------------------------------------------------


def batching(run: Context) -> Iterator[Change]:
    """For each of the lines with the most bytes: arrays that are alive together are one array."""
    frees = _rows_of_frees(run.requests)
    found = 0
    for (line, _), rows in run.rows_by_maker.items():
        groups = [g for g in _together(run.requests, rows, frees) if len(g) >= _FEWEST_BATCHED]
        if groups and found < _MOST_LINES:
            found += 1
            count = sum(map(len, groups))
            what = f"place {count:,} arrays of this line as {len(groups):,}"
            yield Change(
                kind="batching",
                what=what,
                requests=_batched(run.requests, groups, frees),
                line=line,
            )


def _rows_of_frees(requests: Requests) -> dict[int, int]:
    rows = np.flatnonzero(requests.kind == RequestKind.FREE)
    return dict(zip(requests.block[rows].tolist(), rows.tolist(), strict=True))


def _together(requests: Requests, rows: list[int], frees: dict[int, int]) -> Iterator[list[int]]:
    """Allocations in groups none of which loses a member before its last one is made."""
    group: list[int] = []
    ends = len(requests)
    for row in rows:
        if row > ends:
            yield group
            group, ends = [], len(requests)
        group.append(row)
        ends = min(ends, frees.get(int(requests.block[row]), len(requests)))
    yield group


def _batched(requests: Requests, groups: list[list[int]], frees: dict[int, int]) -> Requests:
    """The first allocation of each group is for all of it, and is freed with the last member."""
    size, block = requests.size.copy(), requests.block.copy()
    gone = np.zeros(len(requests), bool)
    for group in groups:
        size[group[0]] = requests.size[group].sum()
        gone[group[1:]] = True
        ends = [frees.get(int(requests.block[row])) for row in group]
        known = [end for end in ends if end is not None]
        gone[known] = True
        if len(known) == len(ends):
            gone[max(known)] = False
            block[max(known)] = block[group[0]]
    return replace(requests, size=size, block=block).take(~gone)


# ---- bucketing ---------------------------------------------------------------------------------

_Round = Callable[[int, int], int]
_Key = tuple[SourceLine, str, str]


def _to_largest(size: int, largest: int) -> int:  # noqa: ARG001 - one form for both
    return largest


def _to_power_of_two(size: int, largest: int) -> int:
    return min(1 << (size - 1).bit_length(), largest)


_ROUNDINGS: tuple[tuple[str, _Round], ...] = (
    ("the largest", _to_largest),
    ("powers of two", _to_power_of_two),
)


def bucketing(run: Context) -> Iterator[Change]:
    """For each of the lines with the most bytes: sizes that vary are rounded up to a few."""
    keys = _keys_of_rows(run)
    varying = _varying(run, keys)
    lines = dict.fromkeys(line for line, _, _ in varying)
    for line in list(lines)[:_MOST_LINES]:
        largest = {key: size for key, size in varying.items() if key[0] == line}
        for name, rounding in _ROUNDINGS:
            what = f"pad the varying sizes of this line to {name}"
            requests = _bucketed(run, keys, largest, rounding)
            yield Change(kind="bucketing", what=what, requests=requests, line=line)


def _keys_of_rows(run: Context) -> list[_Key | None]:
    """Which sizes belong together: an output of a program at a line, its temporaries, what the host
    places there of one element type and rank.
    """
    keys: list[_Key | None] = []
    position = 0
    events = run.recording.events
    for row, (kind, (line, name)) in enumerate(
        zip(run.requests.kind.tolist(), run.makers, strict=True)
    ):
        is_output = kind == RequestKind.ALLOCATE and bool(name)
        position = position + 1 if is_output else 0
        if is_output:
            keys.append((line, name, str(position - 1)))
        elif kind == RequestKind.ALLOCATE:
            shape = run.recording.shape(int(events["detail"][run.requests.event[row]]))
            like = f"{shape.element_type}/{len(shape.dims)}" if shape else ""
            keys.append((line, name, like))
        else:
            keys.append((line, name, "temporaries") if kind == RequestKind.RUN else None)
    return keys


def _varying(run: Context, keys: list[_Key | None]) -> dict[_Key, int]:
    """The largest size of each key that has several, those with the most bytes first."""
    sizes: dict[_Key, list[int]] = defaultdict(list)
    for key, size in zip(keys, run.requests.size.tolist(), strict=True):
        if key and size:
            sizes[key].append(size)
    for key, size in _sizes_of_attempt(run):
        sizes[key].append(size)
    several = {k: s for k, s in sizes.items() if len(set(s)) >= _FEWEST_SIZES}
    return {k: max(s) for k, s in sorted(several.items(), key=lambda item: -sum(item[1]))}


def _sizes_of_attempt(run: Context) -> Iterator[tuple[_Key, int]]:
    attempt = run.requests.attempts.get(run.event)
    if attempt is None or not run.makers or not run.makers[-1][1]:
        return
    line, name = run.makers[-1]
    for position, size in enumerate(attempt.outputs):
        yield (line, name, str(position)), size
    yield (line, name, "temporaries"), attempt.temporaries


def _bucketed(
    run: Context, keys: list[_Key | None], largest: dict[_Key, int], rounding: _Round
) -> Requests:
    def rounded(key: _Key | None, size: int) -> int:
        return rounding(size, largest[key]) if key in largest and size else size

    pairs = zip(keys, run.requests.size.tolist(), strict=True)
    size = np.array([rounded(key, size) for key, size in pairs], np.int64)
    attempts = dict(run.requests.attempts)
    if new := [rounded(key, size) for key, size in _sizes_of_attempt(run)]:
        attempts[run.event] = Attempt(tuple(new[:-1]), new[-1])
    return replace(run.requests, size=size, attempts=attempts)


# ---- order and time ----------------------------------------------------------------------------


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
    what = f"make the {len(first):,} arrays that stay before those that come and go"
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
    frees = _rows_of_frees(run.requests)
    positions = np.arange(len(run.requests), dtype=np.float64)
    moved = 0
    for row, use in run.last_uses.items():
        free = frees.get(int(run.requests.block[row]))
        if free is not None and free > use + 1:
            positions[free] = use + 0.5
            moved += 1
    if moved:
        what = f"free {moved:,} arrays as soon as nothing uses them any more"
        requests = run.requests.take(np.argsort(positions, kind="stable"))
        yield Change(kind="freeing earlier", what=what, requests=requests)


def freeing_unused(run: Context) -> Iterator[Change]:
    """What is in use at the end and nothing can have used in the second half of the run goes then."""
    requests = run.requests
    last = {
        row: use
        for row, use in run.last_uses.items()
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
        f"free {len(rows):,} arrays that nothing had used for half of the run; this answers nothing "
        "if the program still needs them"
    )
    changed = longer.take(np.argsort(positions, kind="stable"))
    yield Change(kind="freeing unused arrays", what=what, requests=changed)


def _last_uses(run: Context) -> dict[int, int]:
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
