"""Which sizes of a batch to compile, so that the largest that fits is found with few.

Memory is not monotonic in the batch: a larger one can need less, as the compiler changes layouts. So
a size that does not fit says nothing of those above it, and what is found is only what was compiled:

1. Grow: twice as large, or more where the needs so far leave room, until two in a row do not fit.
2. Refine between the largest that fits and the next above: where the line through their needs meets
   the limit, every third time the middle.
3. A grid from there up to the largest one compiled. When one of it fits, refine above that.
4. The sizes next to the largest that fill the chip's tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import lcm

_MOST_GROWTH = 16
_GRID_PARTS = 4
_PRECISION = 64  # neighbours differ by no more than this part of the batch
_TILE_TRIES = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a batch fits, and the bytes that it needs where that is known."""

    fits: bool
    need_bytes: int | None


@dataclass(slots=True)
class BatchSearch:
    """A search over sizes of a batch that are multiples of `unit`.

    `ask` compiles a size; None when there is no program of that size, which is then no multiple of
    something inside of the function. `room_bytes` is what a program may need, once that is known.
    `tiles` gives the multiple that fills the tiles, `is_unpadded` whether a compiled size does.
    """

    ask: Callable[[int], Answer | None]
    start: int
    unit: int
    most: int
    resolution: int | None
    room_bytes: Callable[[], int | None]
    tiles: Callable[[int], int | None]
    is_unpadded: Callable[[int], bool]
    answers: dict[int, Answer] = field(default_factory=dict[int, Answer])

    def run(self) -> None:
        """Compiles sizes until the answer is found or `most` were compiled."""
        refused: set[int] = set()
        for batch in self._plan():
            if batch < 1 or batch in self.answers or batch in refused:
                continue
            if len(self.answers) >= self.most:
                return
            answer = self.ask(batch)
            if answer is None:
                refused.add(batch)
                self.unit = self._larger_unit(batch)
            else:
                self.answers[batch] = answer

    @property
    def largest(self) -> int:
        """The largest size that fits; 0 where none does."""
        return max((b for b, a in self.answers.items() if a.fits), default=0)

    def _above(self, batch: int) -> int | None:
        return min((b for b in self.answers if b > batch), default=None)

    def _larger_unit(self, refused: int) -> int:
        """The next divisor of the size at the start, which is known to work, that `refused` has not."""
        larger = range(2 * self.unit, self.start + 1, self.unit)
        return next((u for u in larger if self.start % u == 0 and refused % u), self.start)

    def _plan(self) -> Iterator[int]:
        yield self.start
        yield from self._grow()
        yield from self._shrink()
        while self.largest:
            before = self.largest
            yield from self._refine()
            yield from self._grid()
            if self.largest == before or len(self.answers) >= self.most:
                break
        yield from self._tiles()

    def _fits(self, batch: int) -> bool:
        answer = self.answers.get(batch)
        return bool(answer and answer.fits)

    def _grow(self) -> Iterator[int]:
        batch, failed = self.start, 0 if self._fits(self.start) else 1
        while failed < 2 and len(self.answers) < self.most:
            batch *= 2 if failed else self._growth(batch)
            yield batch
            failed = 0 if self._fits(batch) else failed + 1

    def _growth(self, batch: int) -> int:
        """By how much the needs of the last two let it grow: a power of two."""
        below = max((b for b in self.answers if b < batch), default=None)
        wanted = self._where_full(below, batch) if below else None
        factor = 2
        while wanted and factor < _MOST_GROWTH and 2 * factor * batch <= wanted:
            factor *= 2
        return factor

    def _shrink(self) -> Iterator[int]:
        batch = self.start
        while not self.largest and batch > self.unit and len(self.answers) < self.most:
            batch = max(self.unit, batch // 2 // self.unit * self.unit)
            yield batch

    def _refine(self) -> Iterator[int]:
        for turn in count():
            low = self.largest
            high = self._above(low)
            if not low or high is None or len(self.answers) >= self.most:
                return
            guess = self._where_full(low, high) if turn % 3 < 2 else None
            inside = self._inside(low, high, guess or (low + high) // 2)
            if inside is None:
                return
            unit = self.unit
            yield inside
            if inside not in self.answers and self.unit == unit:
                return  # there is no program of this size, and no larger unit

    def _where_full(self, a: int, b: int) -> int | None:
        """Where the line through the needs of two sizes meets the room; None where it does not."""
        room = self.room_bytes()
        need_a, need_b = self.answers[a].need_bytes, self.answers[b].need_bytes
        if room is None or need_a is None or need_b is None or need_b <= need_a:
            return None
        return a + (room - need_a) * (b - a) // (need_b - need_a)

    def _inside(self, low: int, high: int, guess: int) -> int | None:
        """The multiple of the quantum at or below `guess` that lies between; None where none does."""
        quantum = self._quantum(low)
        first, last = low // quantum * quantum + quantum, (high - 1) // quantum * quantum
        return min(max(guess // quantum * quantum, first), last) if first <= last else None

    def _quantum(self, batch: int) -> int:
        if self.resolution:
            return -(-self.resolution // self.unit) * self.unit
        quantum = self.unit
        while 2 * quantum * _PRECISION <= batch:
            quantum *= 2
        return quantum

    def _grid(self) -> Iterator[int]:
        low, top = self.largest, max(self.answers)
        quantum = self._quantum(low) if low else self.unit
        for part in range(1, _GRID_PARTS):
            yield (low + (top - low) * part // _GRID_PARTS) // quantum * quantum

    def _tiles(self) -> Iterator[int]:
        """Multiples that fill the tiles, from just above the largest that fits down."""
        multiple = self.tiles(self.largest) if self.largest else None
        if not multiple or self.is_unpadded(self.largest):
            return
        multiple = lcm(multiple, self.unit)
        first, above = self.largest // multiple + 1, self._above(self.largest)
        for times in range(first, max(0, first - _TILE_TRIES), -1):
            batch = times * multiple
            if above is None or batch < above:
                yield batch
            if self._fits(batch) and self.is_unpadded(batch):
                return
