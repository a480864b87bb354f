"""What the suite has to reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks.fixes.detection import Detection
from benchmarks.fixes.searching import Search
from benchmarks.fixes.suite import Program

MOST_MEMORY = 0.5  # geometric mean of peak after over peak before
MOST_TIME = 1.15  # step after over step before
MOST_WALL_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one program. None: not asked for, or `error` says why not."""

    program: Program
    detection: Detection | None = None
    search: Search | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something to reach, what was reached, and whether that is enough."""

    what: str
    reached: str
    holds: bool


def memory_ratio(outcomes: Sequence[Outcome]) -> float | None:
    """The geometric mean of peaks after over before, of memory-bound programs; None without any."""
    ratios = [r for s in _memory_bound(outcomes) if (r := s.memory_ratio)]
    return geometric_mean(ratios) if ratios else None


def bars(outcomes: Sequence[Outcome]) -> list[Bar]:
    """All bars that these outcomes say something of."""
    detections = [o.detection for o in outcomes if o.detection]
    searches = [o.search for o in outcomes if o.search]
    failed = sum(bool(o.error) for o in outcomes)
    return [
        Bar("every program was measured", f"{failed} failed", not failed),
        *(_of_detections(detections) if detections else ()),
        *(_of_searches(outcomes, searches) if searches else ()),
    ]


def _of_detections(detections: Sequence[Detection]) -> list[Bar]:
    missed = sum(len(d.missed) for d in detections)
    false = sum(len(d.false) for d in detections)
    return [
        Bar("every planted fault is found", f"{missed} missed", not missed),
        Bar("none on the clean twins", f"{false} false", not false),
    ]


def _of_searches(outcomes: Sequence[Outcome], searches: Sequence[Search]) -> list[Bar]:
    memory = memory_ratio(outcomes)
    times = [r for s in _memory_bound(outcomes) if (r := s.time_ratio)]
    slowest, longest = max(times, default=None), max(s.wall_s for s in searches)
    found = [] if memory is None else [Bar("peaks at most half as high", f"{memory:.2f}", memory <= MOST_MEMORY)]  # fmt: skip
    if slowest is not None:
        found.append(Bar("steps at most 15 % longer", f"{slowest - 1:+.1%}", slowest <= MOST_TIME))
    return [*found, Bar("searches within 10 minutes", f"{longest:.0f} s", longest <= MOST_WALL_S)]


def _memory_bound(outcomes: Sequence[Outcome]) -> list[Search]:
    return [o.search for o in outcomes if o.search and o.program.is_memory_bound]
