"""What a comparison consists of: figures before and after, and things paired with their counterparts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar


class Change(StrEnum):
    """What became of something. `changed`: it takes as many bytes and differs otherwise."""

    NEW = "new"
    GONE = "gone"
    GROWN = "grown"
    SHRUNK = "shrunk"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in both; null is unknown, and then so is `delta`, which is after less before."""

    before: int | None
    after: int | None
    delta: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Subtracts."""
        is_known = self.before is not None and self.after is not None
        object.__setattr__(self, "delta", self.after - self.before if is_known else None)  # type: ignore[operator]

    @property
    def differs(self) -> bool:
        """Whether it is another one; also when only one of them is known."""
        return self.before != self.after

    def __neg__(self) -> Figure:
        """The figure of the comparison the other way round."""
        return Figure(self.after, self.before)


class Sized(Protocol):
    """What takes bytes; None where that is not known."""

    @property
    def bytes(self) -> int | None:
        """Its bytes."""
        ...


T = TypeVar("T")
S = TypeVar("S", bound=Sized)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Generic[S]):
    """One thing in both; null on the side that does not have it, which then counts 0 bytes.

    `delta_bytes` is null where bytes are unknown.
    """

    before: S | None
    after: S | None
    delta_bytes: int | None = field(init=False)
    change: Change = field(init=False)

    def __post_init__(self) -> None:
        """Says what became of it."""
        figure = Figure(
            self.before.bytes if self.before else 0, self.after.bytes if self.after else 0
        )
        object.__setattr__(self, "delta_bytes", figure.delta)
        object.__setattr__(self, "change", self._change())

    def _change(self) -> Change:
        if self.before is None:
            return Change.NEW
        if self.after is None:
            return Change.GONE
        if not self.delta_bytes:
            return Change.CHANGED
        return Change.GROWN if self.delta_bytes > 0 else Change.SHRUNK

    def __neg__(self) -> Pair[S]:
        """The pair of the comparison the other way round."""
        return Pair(before=self.after, after=self.before)


def largest_first(pairs: Sequence[Pair[S]]) -> tuple[Pair[S], ...]:
    """Pairs by how much they differ; those that differ alike stay in order."""
    return tuple(sorted(pairs, key=lambda p: -abs(p.delta_bytes or 0)))


Key = Callable[[T], Hashable | None]


def pair_up(
    before: Sequence[T], after: Sequence[T], keys: Sequence[tuple[Key[T], Key[T]]]
) -> list[tuple[T | None, T | None]]:
    """Pairs of what has the same key, then of what is left by the next key; then what is alone.

    Each key is one function for either side; what it gives None for waits. Things of one key are
    paired in their order.
    """
    pairs: list[tuple[T | None, T | None]] = []
    left, right = list(before), list(after)
    for key_before, key_after in keys:
        found, left, right = _pair_by(left, right, key_before, key_after)
        pairs += found
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]


def _pair_by(
    before: list[T], after: list[T], key_before: Key[T], key_after: Key[T]
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for number in range(len(after) - 1, -1, -1):  # the first is popped first
        if (key := key_after(after[number])) is not None:
            waiting[key].append(number)
    pairs: list[tuple[T, T]] = []
    alone: list[T] = []
    taken: set[int] = set()
    for one in before:
        key = key_before(one)
        if key is None or not waiting.get(key):
            alone.append(one)
            continue
        number = waiting[key].pop()
        taken.add(number)
        pairs.append((one, after[number]))
    return pairs, alone, [other for n, other in enumerate(after) if n not in taken]
