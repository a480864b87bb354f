"""What became of changes that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vtpu.changes.change import Change, NotApplicable
from vtpu.changes.goal import Goal
from vtpu.changes.target import FixTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a program needs, as one trial found it. None is unknown.

    `peak_bytes`: HBM on the busiest device; of what does not fit, what it would take as far as the
    compiler came. `step_s` is modelled, with its band. `compile_s` is what the compiler took when it
    made the results, `compiles` how many programs it made. `to_device_bytes` and `to_host_bytes` cross the
    host link in a step; of a function nothing is known of that. `error`: why it did not compile or run,
    memory apart; `is_cut`: for the time was up.
    """

    fits: bool | None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    step_s: float | None = None
    step_low_s: float | None = None
    step_high_s: float | None = None
    is_lower_bound: bool = False
    compile_s: float | None = None
    compiles: int | None = None
    to_device_bytes: float | None = None
    to_host_bytes: float | None = None
    error: str | None = None
    is_cut: bool = False


class Verdict(StrEnum):
    """What a trial showed."""

    BEST = "best"
    HELPED = "helped"
    NO_HELP = "did not help"
    FAILED = "failed"
    NOT_TRIED = "not tried"


class Results(StrEnum):
    """How the results compare with those of the program as it was, both computed on this machine."""

    IDENTICAL = "identical"
    TOLERANCE = "equal within tolerance"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How results compare. `largest` is the largest difference relative to the largest value of its
    array; `detail` says at what size they were computed, or why they were not.
    """

    results: Results
    largest: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Changes tried together; a single one, or a combination. `reason` is for people."""

    number: int
    changes: tuple[Change, ...]
    verdict: Verdict
    figures: Figures | None = None
    reason: str = ""
    comparison: Comparison | None = None

    @property
    def title(self) -> str:
        """What was changed."""
        return " + ".join(c.title for c in self.changes)

    @property
    def work(self) -> float:
        """How much more a step does than before."""
        product = 1.0
        for change in self.changes:
            product *= change.work
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class FixOutcome:
    """A search. `texts` are the files that edits are about, as they were, by name.

    `best` is the number of the attempt that serves the goal best, None where none helps; `pareto` are
    those of which no other needs both less memory and less time, `0` being the program as it is.
    `trials` compiled or ran the program, `compiles` made new results for that. `untried` are titles of
    changes that were left when the time was up, or when it was interrupted.
    """

    target: FixTarget
    slice: str
    goal: Goal
    baseline: Figures
    attempts: tuple[Attempt, ...] = ()
    best: int | None = None
    pareto: tuple[int, ...] = ()
    without: tuple[NotApplicable, ...] = ()
    texts: dict[str, str]
    trials: int = 0
    compiles: int = 0
    wall_s: float = 0.0
    untried: tuple[str, ...] = ()
    is_interrupted: bool = False

    def attempt(self, number: int) -> Attempt | None:
        """The attempt with a number."""
        return next((a for a in self.attempts if a.number == number), None)
