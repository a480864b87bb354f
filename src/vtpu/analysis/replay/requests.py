"""A run as what it asked of one device's HBM: a stream that can be changed and replayed.

A buffer in donated memory takes no block of its own, so it does not appear: the block lives on. An
execution places its outputs and then runs, with its temporaries; one that did not happen is an attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from vtpu.analysis.run.memory import programs_on
from vtpu.program.shapes import ArrayShape, ShapeError, parse_shape
from vtpu.recording.events import EventFlag, EventKind, MemoryKind, memory_kinds, select
from vtpu.recording.recording import ProgramRecord, Recording

_QUANTUM = 512  # of TPUs: sizes of buffers are multiples


class RequestKind(IntEnum):
    """What is asked."""

    ALLOCATE = 0
    FREE = 1
    RUN = 2  # an execution whose outputs are placed; size: its temporaries, possibly 0
    ATTEMPT = 3  # what found no room in the recorded run; see `Attempt`


@dataclass(frozen=True, slots=True)
class Attempt:
    """An execution, or one array, that found no room: all its blocks, then its temporaries. Bytes."""

    outputs: tuple[int, ...]
    temporaries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """A stream of requests, as columns. `event` is the row of the recording that each comes from.

    `block` numbers blocks by their first buffer (0: not about a block). `program` is 0 for what the host places.
    `attempts`: by event.
    """

    kind: np.ndarray
    block: np.ndarray
    size: np.ndarray
    program: np.ndarray
    event: np.ndarray
    attempts: Mapping[int, Attempt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: np.ndarray) -> Requests:
        """The requests of some rows (indices or a mask), in their order."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    def until(self, event: int) -> Requests:
        """The requests up to the first one of `event`, that one included."""
        found = np.flatnonzero(self.event == event)
        return self.take(np.arange(found[0] + 1)) if len(found) else self

    def until_failure(self, row: int) -> Requests:
        """The requests up to the one at `row`, which found no room in a replay, as an attempt like those
        of the recorded run: with all outputs and the temporaries of its execution.
        """
        if self.kind[row] == RequestKind.ATTEMPT:
            return self.take(np.arange(row + 1))
        first, attempt = self._execution_at(row) or (row, Attempt((int(self.size[row]),)))
        found = self.take(np.append(np.arange(first), row))
        kind, block = found.kind.copy(), found.block.copy()
        kind[-1], block[-1] = RequestKind.ATTEMPT, 0
        attempts = {**self.attempts, int(self.event[row]): attempt}
        return replace(found, kind=kind, block=block, attempts=attempts)

    def _execution_at(self, row: int) -> tuple[int, Attempt] | None:
        """The row of the first output of the execution that `row` is of, and all it asks for."""
        run = row
        while run < len(self) and self.kind[run] == RequestKind.ALLOCATE:
            run += 1
        if run == len(self) or self.kind[run] != RequestKind.RUN:
            return None
        first = first_output(self.kind, self.event, run)
        outputs = tuple(self.size[first:run].tolist())
        return (first, Attempt(outputs, int(self.size[run]))) if first <= row else None

    def alike(self) -> tuple[object, ...]:
        """A key that two streams share when they ask for the same, of whichever device."""
        _, numbers = np.unique(self.block, return_inverse=True)
        columns = (self.kind, numbers.astype(np.int64), self.size, self.program)
        attempts = tuple(self.attempts[event] for event in sorted(self.attempts))
        return (*(column.tobytes() for column in columns), attempts)


_Column = np.ndarray | Sequence[int]
_COLUMNS = ("kind", "block", "size", "program", "event")


def first_output(kind: _Column, event: _Column, run: int) -> int:
    """The row of the first output of the execution whose run is at row `run`; `run` without outputs."""
    first = run
    while first > 0 and kind[first - 1] == RequestKind.ALLOCATE and event[first - 1] > event[run]:
        first -= 1
    return first


def requests_of(recording: Recording, device: int) -> Requests:
    """What the run asked of `device`, in order."""
    rows = _rows_of(recording, device)
    own = select(recording.events, rows)
    failed = _failed_outputs(own)
    attempts = {
        int(rows[at]): _attempt(recording, own[at], own[outputs]["bytes"])
        for at, outputs in failed.items()
    }
    block, takes_over = _blocks(own)
    gone = {int(s) for outputs in failed.values() for s in own["subject"][outputs]}
    is_failure = own["kind"] == EventKind.FAILURE
    is_run = own["kind"] == EventKind.EXECUTE
    did_not_run = is_run & (own["flags"] & EventFlag.FAILED != 0)
    keep = ~takes_over & ~did_not_run & (is_failure | is_run | (own["bytes"] > 0))
    if gone:
        keep &= is_failure | is_run | ~np.isin(own["subject"], list(gone))
    order = np.argsort(_positions(own), kind="stable")
    order = order[keep[order]]
    kind = _KINDS[own["kind"][order]]
    return Requests(
        kind=kind,
        block=np.where(kind <= RequestKind.FREE, block[order], 0),
        size=own["bytes"][order],
        program=own["program"][order].astype(np.int64),
        event=rows[order],
        attempts=attempts,
    )


_KINDS = np.zeros(256, np.uint8)
_KINDS[EventKind.FREE] = RequestKind.FREE
_KINDS[EventKind.EXECUTE] = RequestKind.RUN
_KINDS[EventKind.FAILURE] = RequestKind.ATTEMPT


def _rows_of(recording: Recording, device: int) -> np.ndarray:
    """The events about HBM of `device`."""
    events = recording.events
    kinds = events["kind"]
    asks = np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE, EventKind.FAILURE))
    in_hbm = memory_kinds(events) == MemoryKind.DEVICE
    runs_here = (kinds == EventKind.EXECUTE) & programs_on(recording, device, events)
    return np.flatnonzero((asks & in_hbm & (events["device"] == device)) | runs_here)


def _is_output(own: np.ndarray) -> np.ndarray:
    return (
        (own["kind"] == EventKind.ALLOCATE)
        & (own["program"] > 0)
        & (own["flags"] & EventFlag.ALIASED == 0)
    )


def _ends_of_outputs(own: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """For each execution the row of its last output, or its own."""
    others = np.append(np.flatnonzero(~_is_output(own)), len(own))
    return others[np.searchsorted(others, starts + 1)] - 1


def _positions(own: np.ndarray) -> np.ndarray:
    """Where each row stands in time: an execution behind its outputs."""
    positions = 2 * np.arange(len(own))
    starts = np.flatnonzero(own["kind"] == EventKind.EXECUTE)
    positions[starts] = 2 * _ends_of_outputs(own, starts) + 1
    return positions


def _failed_outputs(own: np.ndarray) -> dict[int, np.ndarray]:
    """By the row of each failure the rows of the outputs that its execution had placed."""
    found: dict[int, np.ndarray] = {}
    starts = np.flatnonzero(own["kind"] == EventKind.EXECUTE)
    ends = _ends_of_outputs(own, starts) + 1
    for at in np.flatnonzero(own["kind"] == EventKind.FAILURE):
        start = np.searchsorted(ends, at)
        is_of_program = start < len(ends) and ends[start] == at and own["program"][at] > 0
        found[int(at)] = np.arange(starts[start] + 1, at) if is_of_program else np.arange(0)
    return found


def _attempt(recording: Recording, failure: np.void, placed: np.ndarray) -> Attempt:
    sizes = tuple(int(n) for n in placed if n)
    wanted = int(failure["bytes"])
    if failure["flags"] & EventFlag.RESERVE:
        return Attempt(sizes, wanted)
    number = int(failure["program"])
    program = next((p for p in recording.programs if p.number == number), None)
    if program is None:
        return Attempt((*sizes, wanted))
    rest = program.output_bytes - program.alias_bytes - sum(sizes) - wanted
    return Attempt((*sizes, wanted, *_last_outputs(program, rest)), program.temp_bytes)


def _last_outputs(program: ProgramRecord, total: int) -> tuple[int, ...]:
    """The sizes of a program's last outputs, `total` bytes of them; as one where that is not known."""
    sizes: list[int] = []
    for text in reversed(program.output_shapes):
        if sum(sizes) < total:
            sizes.insert(0, _device_bytes(text))
    is_known = all(sizes) and sum(sizes) == total
    return tuple(sizes) if is_known else (total,) if total > 0 else ()


def _device_bytes(shape: str) -> int:
    """Bytes of an array of a program; 0 where they are not known."""
    try:
        parsed = parse_shape(shape)
    except ShapeError:
        return 0
    size = parsed.padded_bytes if isinstance(parsed, ArrayShape) else 0
    return -(-size // _QUANTUM) * _QUANTUM


def _blocks(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block of each row's buffer; which rows pass a donated block on and ask for nothing."""
    block = own["subject"].astype(np.int64)
    aliased = own["flags"] & EventFlag.ALIASED != 0
    gives = (own["kind"] == EventKind.FREE) & aliased
    gets = (own["kind"] == EventKind.ALLOCATE) & aliased
    pairs = np.flatnonzero(gives[:-1] & gets[1:]) if len(own) else np.arange(0)
    takes_over = np.zeros(len(own), bool)
    takes_over[pairs] = takes_over[pairs + 1] = True
    first: dict[int, int] = {}
    for at in pairs.tolist():
        old = int(block[at])
        first[int(block[at + 1])] = first.get(old, old)
    return renamed(block, first), takes_over


def holders(recording: Recording, device: int, event: int) -> dict[int, int]:
    """The buffer that had each block last before `event`, as the row of its making."""
    rows = _rows_of(recording, device)
    rows = rows[: np.searchsorted(rows, event)]
    own = select(recording.events, rows)
    made = own["kind"] == EventKind.ALLOCATE
    block, _ = _blocks(own)
    return dict(zip(block[made].tolist(), rows[made].tolist(), strict=True))


def renamed(blocks: np.ndarray, names: Mapping[int, int]) -> np.ndarray:
    """`blocks` with other numbers for those that `names` has."""
    if not names:
        return blocks
    old = np.array(sorted(names), np.int64)
    new = np.array([names[n] for n in old.tolist()], np.int64)
    at = np.minimum(np.searchsorted(old, blocks), len(old) - 1)
    return np.where(old[at] == blocks, new[at], blocks)
