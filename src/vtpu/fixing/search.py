"""The search: every change tried alone, those that help combined, within a time.

Changes that alter results by design are tried alone and shown, and are combined only where they are asked
for, or where the goal is that the program fits and nothing else makes it.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Conflict, render_files
from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Attempt, Figures, FixOutcome, Verdict
from vtpu.changes.proposal import propose_all
from vtpu.changes.situation import Situation
from vtpu.changes.target import FixTarget
from vtpu.errors import UsageError
from vtpu.fixing.baseline import Baseline, measure_baseline
from vtpu.fixing.processes import Processes
from vtpu.fixing.results import compare_results
from vtpu.fixing.scoring import helps, pareto, reference, score, step_for_the_same
from vtpu.fixing.verification import Variant, Verifier

_SHARE_OF_SINGLES = 0.6  # of the time; the rest is for combinations
_SHARE_OF_TRIALS = 0.9  # and what is left then for results
_MOST_WORKERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FixOptions:
    """What a search may do. No trial begins after `most_compiles` new ones, which a trial under way may exceed.
    `says` is told what is tried, for people who wait.
    """

    goal: Goal | None = None
    within_s: float = 600.0
    most_compiles: int | None = None
    combines_different: bool = False
    compares: bool = True
    says: Callable[[str], None] = field(default=lambda _: None)


def search(target: FixTarget, slice_name: str, options: FixOptions) -> FixOutcome:
    """Tries what could be changed. Ctrl-C ends it early, and what was found is the answer.

    Raises:
        UsageError: the program does not compile and run as it is.
    """
    processes = Processes()
    verifier = Verifier(target, slice_name, processes)
    run = _Search(target, slice_name, options, verifier, processes)
    try:
        return run.outcome()
    finally:
        processes.stop()
        verifier.close()


class _Search:
    """One search: what was tried so far, and until when it may go on."""

    def __init__(
        self,
        target: FixTarget,
        slice_name: str,
        options: FixOptions,
        verifier: Verifier,
        processes: Processes,
    ) -> None:
        self._target, self._slice, self._options = target, slice_name, options
        self._verifier, self._processes = verifier, processes
        self._began = time.monotonic()
        self._attempts: list[Attempt] = []
        self._texts: dict[str, str] = {}
        self._is_interrupted = False
        self._untried: list[str] = []

    def outcome(self) -> FixOutcome:
        """The whole search."""
        self._options.says("measuring the program as it is")
        baseline = measure_baseline(
            self._target, self._slice, self._options.goal, self._verifier, self._left_s()
        )
        situation = baseline.situation
        changes, without = propose_all(situation)
        self._texts = _texts_of(changes, situation)
        best: Attempt | None = None
        try:
            self._try_singles(changes, baseline)
            best = self._combine(baseline)
            best = self._compare(best, baseline)
        except KeyboardInterrupt:
            self._is_interrupted = True
            self._processes.stop()
            best = self._best(baseline)
        return self._described(baseline, without, best)

    def _described(
        self, baseline: Baseline, without: Sequence[NotApplicable], best: Attempt | None
    ) -> FixOutcome:
        attempts = [
            replace(a, verdict=Verdict.BEST) if best and a.number == best.number else a
            for a in self._attempts
        ]
        return FixOutcome(
            target=self._target,
            slice=self._slice,
            goal=baseline.situation.goal,
            baseline=baseline.figures,
            attempts=tuple(attempts),
            best=best.number if best else None,
            pareto=pareto(_points(baseline.figures, attempts)),
            without=tuple(without),
            texts=self._texts,
            trials=self._verifier.trials,
            compiles=self._verifier.compiles,
            wall_s=time.monotonic() - self._began,
            untried=tuple(self._untried),
            is_interrupted=self._is_interrupted,
        )

    # ---- one after the other, and together ------------------------------------------------------

    def _try_singles(self, changes: Sequence[Change], baseline: Baseline) -> None:
        """Each change alone, the most promising first, several at once."""
        ordered = in_turn(changes, baseline.situation.goal)
        until = self._options.within_s * _SHARE_OF_SINGLES
        self._measure_all([(c,) for c in ordered], baseline, until)

    def _combine(self, baseline: Baseline) -> Attempt | None:
        """Adds to the best what helps beside it, as long as something does."""
        best = self._best(baseline)
        tried = {self._names(a.changes) for a in self._attempts}
        while best is not None:
            more = self._additions(best, baseline, tried)
            until = self._options.within_s * _SHARE_OF_TRIALS
            if not more or not self._may_begin(0, until):
                return best
            some = more[: self._workers()]
            tried |= {self._names(changes) for changes in some}
            self._measure_all(some, baseline, until)
            better = self._best(baseline)
            best = better or best
        return best

    def _additions(
        self, best: Attempt, baseline: Baseline, tried: set[frozenset[str]]
    ) -> list[tuple[Change, ...]]:
        """Combinations of the best with one change more, the most promising first."""
        goal, figures = baseline.situation.goal, self._reference(baseline)
        singles = [a for a in self._attempts if len(a.changes) == 1 and a.figures]
        usable = [a for a in singles if a.verdict is not Verdict.FAILED and self._may_combine(a)]
        ordered = sorted(
            usable,
            key=lambda a: (
                a.verdict is Verdict.NO_HELP,
                score(goal, a.figures or figures, figures, a.work),
            ),
        )
        groups = {c.group or c.title for c in best.changes}
        more = [
            (*best.changes, *a.changes)
            for a in ordered
            if not groups & {c.group or c.title for c in a.changes}
        ]
        return [changes for changes in more if self._names(changes) not in tried]

    def _may_combine(self, attempt: Attempt) -> bool:
        is_by_design = any(c.numerics is Numerics.DIFFERENT for c in attempt.changes)
        return self._options.combines_different or not is_by_design

    def _best(self, baseline: Baseline) -> Attempt | None:
        """What serves the goal best of all that helps; without changes that alter results by design
        unless they are asked for, or nothing else makes the program fit.
        """
        goal, figures = baseline.situation.goal, self._reference(baseline)
        helped = [a for a in self._attempts if a.verdict is Verdict.HELPED and a.figures]
        plain = [a for a in helped if self._may_combine(a)]
        if goal is Goal.FIT and not any(a.figures and a.figures.fits for a in plain):
            plain = helped
        return min(
            plain,
            key=lambda a: (score(goal, a.figures or figures, figures, a.work), len(a.changes)),
            default=None,
        )

    def _reference(self, baseline: Baseline) -> Figures:
        tried = [(a.figures, a.work) for a in self._attempts if a.figures]
        return reference(baseline.figures, tried)

    @staticmethod
    def _names(changes: Iterable[Change]) -> frozenset[str]:
        return frozenset(c.title for c in changes)

    # ---- measuring ------------------------------------------------------------------------------

    def _measure_all(
        self, combinations: Sequence[tuple[Change, ...]], baseline: Baseline, until_s: float
    ) -> None:
        """Measures combinations, as many at once as there are cores, until the time is up."""
        waiting: Iterator[tuple[Change, ...]] = iter(combinations)
        running: dict[Future[Figures | str], tuple[Change, ...]] = {}
        taken = 0
        with ThreadPoolExecutor(self._workers()) as pool:
            try:
                while True:
                    while self._may_begin(len(running), until_s):
                        changes = next(waiting, None)
                        if changes is None:
                            break
                        taken += 1
                        self._options.says(_title(changes))
                        running[pool.submit(self._figures, changes)] = changes
                    if not running:
                        break
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._note(running.pop(future), future.result(), baseline)
            except BaseException:
                self._processes.stop()
                raise
        self._untried += [_title(changes) for changes in combinations[taken:]]

    def _may_begin(self, running: int, until_s: float) -> bool:
        """Whether one more trial may begin beside so many."""
        most = self._options.most_compiles
        is_left = most is None or self._verifier.compiles + running < most
        return running < self._workers() and self._elapsed_s() < until_s and is_left

    def _figures(self, changes: tuple[Change, ...]) -> Figures | str:
        """What a variant needs, or why it cannot be made."""
        try:
            variant = self._variant(changes)
        except (Conflict, SyntaxError) as error:
            return str(error)
        return self._verifier.measure(variant, max(1.0, self._left_s())).figures

    def _variant(self, changes: Iterable[Change]) -> Variant:
        every = list(changes)
        return Variant(
            texts=render_files(self._texts, [e for c in every for e in c.edits]),
            arguments=tuple(a for c in every for a in c.arguments),
            environment=tuple(pair for c in every for pair in c.environment),
        )

    def _note(self, changes: tuple[Change, ...], found: Figures | str, baseline: Baseline) -> None:
        """Keeps what a trial showed."""
        figures = None if isinstance(found, str) else found
        reason = found if isinstance(found, str) else found.error or ""
        attempt = Attempt(
            number=len(self._attempts) + 1,
            changes=changes,
            verdict=Verdict.NOT_TRIED if figures and figures.is_cut else Verdict.FAILED,
            figures=None if figures and figures.is_cut else figures,
            reason=reason,
        )
        if figures and not figures.error:
            is_better = helps(
                baseline.situation.goal,
                figures,
                baseline.figures,
                baseline.figures,
                (attempt.work, 1.0),
            )
            attempt = replace(attempt, verdict=Verdict.HELPED if is_better else Verdict.NO_HELP)
        self._attempts.append(attempt)

    def _compare(self, best: Attempt | None, baseline: Baseline) -> Attempt | None:
        """Compares results, of the best and of its parts, with those of the program as it is."""
        if best is None or not self._options.compares:
            return best
        parts = [a for a in self._attempts if len(a.changes) == 1 and set(a.changes) <= set(best.changes)]  # fmt: skip
        wanted = {a.number: a for a in (best, *parts)}
        self._options.says("comparing results")
        for number, comparison in compare_results(
            {number: self._variant(a.changes) for number, a in wanted.items()},
            self._target,
            baseline.situation,
            self._processes,
            max(10.0, self._left_s()),
        ).items():
            index = number - 1
            self._attempts[index] = replace(self._attempts[index], comparison=comparison)
        return self._attempts[best.number - 1]

    def _workers(self) -> int:
        return max(1, min(_MOST_WORKERS, os.cpu_count() or 1))

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _left_s(self) -> float:
        return self._options.within_s - self._elapsed_s()


def _title(changes: Iterable[Change]) -> str:
    return " + ".join(c.title for c in changes)


def in_turn(changes: Iterable[Change], goal: Goal) -> list[Change]:
    """Changes in the order in which to try them: the best of each group, then the second ones, and so on."""
    turns: dict[str, int] = defaultdict(int)
    ranked: list[tuple[int, Change]] = []
    for change in sorted(changes, key=lambda c: _promise(c, goal)):
        group = change.group or change.title
        ranked.append((turns[group], change))
        turns[group] += 1
    return [change for _, change in sorted(ranked, key=lambda pair: pair[0])]


def _promise(change: Change, goal: Goal) -> tuple[bool, float]:
    """Orders changes: what is expected to save most of what counts first, the unknown last."""
    expected = change.expected_s if goal is Goal.SPEED else change.expected_bytes
    return expected is None, -(expected or 0.0)


def _texts_of(changes: Iterable[Change], situation: Situation) -> dict[str, str]:
    """The files that edits are about, as they are."""
    names = {e.file for c in changes for e in c.edits}
    texts: dict[str, str] = {}
    for name in sorted(names):
        file = situation.files.get(name)
        if file is None:
            raise UsageError(f"{name} could not be read again")
        texts[name] = file.text
    return texts


def _points(baseline: Figures, attempts: Sequence[Attempt]) -> dict[int, tuple[float, float]]:
    """Memory and time of what fits, the program as it is under number 0."""
    found = {0: (baseline, 1.0), **{a.number: (a.figures, a.work) for a in attempts}}
    return {
        number: (float(figures.peak_bytes), step_for_the_same(figures, work))
        for number, (figures, work) in found.items()
        if figures and figures.fits and figures.peak_bytes is not None
    }
