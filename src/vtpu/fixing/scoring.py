"""Which of two variants serves a goal better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Figures

MOST_STEP_COST = 0.15
LEAST_GAIN = 0.005  # of memory; less than this is no help
LEAST_GAIN_S = 0.02  # of a step, which is modelled


def score(goal: Goal, figures: Figures, baseline: Figures, work: float = 1.0) -> tuple[float, ...]:
    """What to make small, the most important first. `work`: how much more the variant does in a step.

    That it fits comes first. Then, of `memory`, that a step takes at most 15 % longer (for the same work),
    then its memory; of the others the step's time.
    """
    peak = inf if figures.peak_bytes is None else float(figures.peak_bytes)
    if not figures.fits:
        return (1.0, 0.0, peak, inf)
    step = step_for_the_same(figures, work)
    if goal is Goal.MEMORY:
        return (0.0, float(not _step_is_allowed(step, baseline)), peak, step)
    return (0.0, 0.0, step, peak)


def helps(
    goal: Goal, figures: Figures, before: Figures, baseline: Figures, works: tuple[float, float]
) -> bool:
    """Whether a variant is noticeably better than what was before; `works` of it and of that."""
    new = score(goal, figures, baseline, works[0])
    old = score(goal, before, baseline, works[1])
    if new[:2] != old[:2]:
        return new[:2] < old[:2]
    least = LEAST_GAIN if goal is Goal.MEMORY or not figures.fits else LEAST_GAIN_S
    return new[2] < old[2] * (1 - least)


def reference(baseline: Figures, variants: Iterable[tuple[Figures, float]]) -> Figures:
    """What a goal compares steps with: those of the program as it is or, where their time is not known because it
    does not fit, of the fastest variant that does. `variants` are figures with how much more they do in a step.
    """
    steps = [step_for_the_same(figures, work) for figures, work in variants if figures.fits]
    return baseline if baseline.step_s else replace(baseline, step_s=min(steps, default=None))


def step_for_the_same(figures: Figures, work: float) -> float:
    """The time of a step for the work that the program did as it was; infinite where it is not known."""
    return inf if figures.step_s is None else figures.step_s / work


def _step_is_allowed(step_s: float, baseline: Figures) -> bool:
    """Whether it is at most 15 % longer; what was not known before allows everything."""
    return baseline.step_s is None or step_s <= baseline.step_s * (1 + MOST_STEP_COST)


def pareto(points: dict[int, tuple[float, float]]) -> tuple[int, ...]:
    """Of points (memory, time) by number those of which no other is as good in both and better in one,
    the least memory first; of equal ones the first.
    """
    kept: list[int] = []
    least_time = inf
    for number, (_, time) in sorted(points.items(), key=lambda p: (p[1], p[0])):
        if time < least_time or not kept:
            kept.append(number)
            least_time = time
    return tuple(kept)
