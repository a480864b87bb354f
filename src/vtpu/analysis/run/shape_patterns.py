"""How the shapes differ for which a function was compiled again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from vtpu.analysis.run.definitions import is_operation
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile, Varying, varying_size
from vtpu.recording.recording import Recording

_FEWEST_SIZES = 4
_FEWEST_SIZES_OF_OPERATION = 8  # a model's initialization makes arrays of several sizes
_TILE = 128


class Pattern(Enum):
    """What kind of change it is."""

    CHANGING = auto()  # one size takes many values
    GROWING = auto()  # the same, and it grows with every call
    LAST_BATCH = auto()  # one smaller leading size now and then
    BUCKETS = auto()  # few sizes, rounded by the program itself
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The sizes of a function's programs. `varying` None: more than one size differs.

    `calls` is how often each size came, `is_operation`: it is JAX's own, outside jit.
    """

    pattern: Pattern
    varying: Varying | None
    calls: Counter[int]
    is_operation: bool


def shapes_of(function: ProgramSummary, again: Sequence[Recompile], recording: Recording) -> Shapes:
    """The pattern of the programs of a function that differ in shape; `again` are its recompilations."""
    records = {p.number: p for p in recording.programs}
    done = [c for c in function.compilations if c.error is None]
    differ = {r.compilation.program for r in again if r.cause is Cause.SHAPE}
    kept = [c for i, c in enumerate(done) if not i or c.program in differ]
    varying = varying_size([records[c.program] for c in kept])
    calls: Counter[int] = Counter()
    for compilation, size in zip(kept, varying.sizes if varying else (), strict=False):
        calls[size] += compilation.calls
    operation = is_operation(records[done[0].program])
    same_place = all(r.is_same_place for r in again if r.compilation.program in differ)
    pattern = _pattern(varying, calls, operation=operation) if varying and same_place else Pattern.OTHER  # fmt: skip
    return Shapes(pattern=pattern, varying=varying, calls=calls, is_operation=operation)


def _pattern(varying: Varying, calls: Counter[int], *, operation: bool) -> Pattern:
    sizes = varying.sizes
    fewest = _FEWEST_SIZES_OF_OPERATION if operation else _FEWEST_SIZES
    if len(calls) >= fewest:
        if _grows(sizes, calls):
            return Pattern.GROWING
        return Pattern.BUCKETS if _is_rounded(calls) else Pattern.CHANGING
    if len(calls) == 2 and _is_last_batch(varying, calls):
        return Pattern.LAST_BATCH
    return Pattern.BUCKETS if _is_rounded(calls) else Pattern.OTHER


def _grows(sizes: Sequence[int], calls: Counter[int]) -> bool:
    steps = {b - a for a, b in pairwise(sizes)}
    return len(steps) == 1 and steps.pop() > 0 and max(calls.values()) == 1


def _is_rounded(calls: Counter[int]) -> bool:
    """Whether the program seems to round sizes itself: to powers of two, or to whole tiles."""
    return all(size & (size - 1) == 0 for size in calls) or all(size % _TILE == 0 for size in calls)


def _is_last_batch(varying: Varying, calls: Counter[int]) -> bool:
    first, second = varying.sizes
    leads = all(axis == 0 for _, axis in varying.places)
    return leads and second < first and 2 * calls[second] <= calls[first]
