"""Requests of memory replayed under an allocator: what is where, and what finds no room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from vtpu.analysis.replay.addresses import BlockAt
from vtpu.analysis.replay.requests import Attempt, RequestKind, Requests
from vtpu.hbm.allocator import Allocator, B

AnyAllocator = Allocator[Any]
MakeAllocator = Callable[[], AnyAllocator]
"""An empty allocator, made anew for each replay."""


OWN_OUTPUT = -1
"""Stands for the block of an output of the execution that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFailure:
    """A request that found no room: its row and event, and memory just then. Bytes.

    `is_reservation`: of a program's temporaries. `is_recorded`: it found none in the recorded run
    either. `blocks`: what was where, of the first failure only.
    """

    row: int
    event: int
    wanted: int
    free: int
    largest_free: int
    reservable: int
    is_reservation: bool
    is_recorded: bool
    blocks: tuple[BlockAt, ...] = ()

    @property
    def lacks_bytes(self) -> bool:
        """Whether there were too few free bytes, as opposed to too few in one piece."""
        return self.wanted > self.free


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """Memory after each request, as columns in bytes. Row i is that of `requests`.

    `reserved`: what a program holds beside buffers, at its run; for an attempt that fits all that it
    holds. `free`, `largest_free` and `reservable` are between runs. `address`: of what was placed, else
    -1. The replay ends at the first failure that the recorded run did not have (`is_cut`): what the
    program would have done then is not known.
    """

    requests: Requests
    limit: int
    in_use: np.ndarray
    reserved: np.ndarray
    free: np.ndarray
    largest_free: np.ndarray
    reservable: np.ndarray
    address: np.ndarray
    pool_bytes: int
    failures: tuple[ReplayFailure, ...]
    fitted_attempts: int
    is_cut: bool

    @property
    def peak_row(self) -> int:
        """The row with the most bytes in use and reserved; -1 without requests."""
        return int(np.argmax(self.in_use + self.reserved)) if len(self.in_use) else -1

    @property
    def peak_bytes(self) -> int:
        """That sum."""
        return int((self.in_use + self.reserved).max(initial=0))

    @property
    def fragmentation(self) -> np.ndarray:
        """The part of free memory outside of its largest piece: 1 - largest free / free."""
        return 1 - self.largest_free / np.maximum(self.free, np.maximum(self.largest_free, 1))


def replay(requests: Requests, allocator: AnyAllocator) -> Replay:
    """Replays requests on an allocator, which has to be empty."""
    state = _State(requests, allocator)
    state.run()
    return state.result()


_ALLOCATE, _FREE, _RUN = (int(k) for k in (RequestKind.ALLOCATE, RequestKind.FREE, RequestKind.RUN))


class _State(Generic[B]):
    """A replay under way."""

    def __init__(self, requests: Requests, allocator: Allocator[B]) -> None:
        self._requests = requests
        self._allocator = allocator
        self._blocks: dict[int, B] = {}
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._address = np.full(len(requests), -1, np.int64)
        self._failures: list[ReplayFailure] = []
        self._fitted = 0
        self._is_cut = False

    def run(self) -> None:
        """All requests, or those up to a failure that was not recorded."""
        allocator, blocks, note = self._allocator, self._blocks, self._rows.append
        allocate, free, address = allocator.allocate, allocator.free, self._address
        requests = self._requests
        columns = zip(
            requests.kind.tolist(),
            requests.block.tolist(),
            requests.size.tolist(),
            strict=True,
        )
        for row, (kind, number, size) in enumerate(columns):
            held = 0
            if kind == _ALLOCATE:
                block = allocate(size)
                if block is None:
                    self._fail(row, size, is_reservation=False)
                    return
                blocks[number] = block
                address[row] = block.address
            elif kind == _FREE:
                block = blocks.pop(number, None)  # None: its making was not recorded
                if block is not None:
                    free(block)
            elif kind == _RUN:
                if size and not allocator.reserve(size, int(requests.program[row])):
                    self._fail(row, size, is_reservation=True)
                    return
                held = size
            else:
                held = self._try(row)
            kept = allocator.reserved
            note((
                allocator.in_use,
                max(kept, held),
                kept,
                allocator.largest_free,
                allocator.reservable,
                allocator.pool_bytes,
            ))  # fmt: skip

    def _try(self, row: int) -> int:
        """Makes an attempt and takes it back. Gives the bytes it held if it fitted."""
        event = int(self._requests.event[row])
        attempt = self._requests.attempts.get(event, Attempt(()))
        program = int(self._requests.program[row])
        placed: list[B] = []
        wanted, is_reservation = 0, False
        for size in attempt.outputs:
            block = self._allocator.allocate(size)
            if block is None:
                wanted = size
                break
            placed.append(block)
        else:
            temporaries = attempt.temporaries
            if temporaries and not self._allocator.reserve(temporaries, program):
                wanted, is_reservation = temporaries, True
        if wanted:
            self._fail(row, wanted, is_reservation=is_reservation, own_outputs=placed)
        else:
            self._fitted += 1
        for block in placed:
            self._allocator.free(block)
        return 0 if wanted else sum(attempt.outputs) + attempt.temporaries

    def _fail(
        self, row: int, wanted: int, *, is_reservation: bool, own_outputs: list[B] | None = None
    ) -> None:
        """Notes a failure. `own_outputs`: what an attempt had placed; None of what was no attempt."""
        allocator = self._allocator
        is_recorded = own_outputs is not None
        self._is_cut = self._is_cut or not is_recorded
        blocks = () if self._failures else self._blocks_now(own_outputs or [])
        failure = ReplayFailure(
            row=row,
            event=int(self._requests.event[row]),
            wanted=wanted,
            free=allocator.limit - allocator.in_use - allocator.reserved,
            largest_free=allocator.largest_free,
            reservable=allocator.reservable,
            is_reservation=is_reservation,
            is_recorded=is_recorded,
            blocks=blocks,
        )
        self._failures.append(failure)

    def _blocks_now(self, own_outputs: list[B]) -> tuple[BlockAt, ...]:
        found = [BlockAt(b.address, b.size, number) for number, b in self._blocks.items()]
        found += [BlockAt(b.address, b.size, OWN_OUTPUT) for b in own_outputs]
        return tuple(sorted(found, key=lambda b: b.address))

    def result(self) -> Replay:
        """What was replayed."""
        rows = np.array(self._rows, np.int64).reshape(-1, 6)
        in_use, reserved, kept, largest_free, reservable, pool = rows.T
        return Replay(
            requests=self._requests,
            limit=self._allocator.limit,
            in_use=in_use,
            reserved=reserved,
            free=self._allocator.limit - in_use - kept,
            largest_free=largest_free,
            reservable=reservable,
            address=self._address[: len(rows)],
            pool_bytes=int(pool.max(initial=self._allocator.pool_bytes)),
            failures=tuple(self._failures),
            fitted_attempts=self._fitted,
            is_cut=self._is_cut,
        )
