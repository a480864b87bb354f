"""Which variant serves a goal better, and which no other beats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Figures
from vtpu.fixing.scoring import helps, pareto, reference, score

BASE = Figures(fits=True, peak_bytes=1000, step_s=1.0)


def figures(peak: int, step: float, *, fits: bool = True) -> Figures:
    return Figures(fits=fits, peak_bytes=peak, step_s=step if fits else None)


def test_less_memory_counts_when_the_step_takes_no_more_than_15_percent_longer() -> None:
    assert helps(Goal.MEMORY, figures(500, 1.14), BASE, BASE, (1.0, 1.0))
    assert not helps(Goal.MEMORY, figures(500, 1.16), BASE, BASE, (1.0, 1.0))


def test_for_speed_the_step_counts_whatever_it_takes_of_memory() -> None:
    assert helps(Goal.SPEED, figures(2000, 0.9), BASE, BASE, (1.0, 1.0))
    assert not helps(Goal.SPEED, figures(2000, 0.9, fits=False), BASE, BASE, (1.0, 1.0))


def test_a_step_that_does_twice_as_much_may_take_twice_as_long() -> None:
    assert helps(Goal.SPEED, figures(2000, 1.8), BASE, BASE, (2.0, 1.0))
    assert not helps(Goal.SPEED, figures(2000, 2.1), BASE, BASE, (2.0, 1.0))


def test_what_does_not_fit_is_better_the_less_it_lacks() -> None:
    before = figures(3000, 0.0, fits=False)
    assert helps(Goal.FIT, figures(2500, 0.0, fits=False), before, before, (1.0, 1.0))
    assert score(Goal.FIT, figures(900, 9.0), before) < score(Goal.FIT, figures(2500, 0.0, fits=False), before)  # fmt: skip


def test_where_nothing_fitted_steps_are_compared_with_the_fastest_that_does() -> None:
    before = figures(3000, 0.0, fits=False)
    variants = [(figures(900, 2.0), 1.0), (figures(500, 9.0), 1.0), (figures(700, 4.4), 2.0)]
    against = reference(before, variants)
    best = min(variants, key=lambda v: score(Goal.MEMORY, v[0], against, v[1]))
    assert best[0].peak_bytes == 700
    assert reference(BASE, variants) == BASE
    assert reference(before, [(before, 1.0)]) == before


@pytest.mark.parametrize("goal", list(Goal))
def test_the_program_as_it_is_helps_nothing(goal: Goal) -> None:
    assert not helps(goal, BASE, BASE, BASE, (1.0, 1.0))


@given(
    st.dictionaries(st.integers(0, 40), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1)
)
def test_no_point_beats_one_of_the_set_and_every_other_is_beaten(points) -> None:
    kept = pareto(points)
    assert kept
    for number in points:
        beaten = [
            n
            for n in points
            if points[n][0] <= points[number][0]
            and points[n][1] <= points[number][1]
            and points[n] != points[number]
        ]
        same = [n for n in kept if points[n] == points[number]]
        assert (number in kept or bool(same)) == (not beaten)
