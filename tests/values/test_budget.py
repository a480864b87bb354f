"""Budgets as people write them."""

from __future__ import annotations

import pytest

from vtpu.errors import UsageError
from vtpu.values.budget import DEFAULT_BUDGET, Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2TFLOP", Budget(2e12, DEFAULT_BUDGET.bytes, DEFAULT_BUDGET.seconds)),
        ("1e9flops, 4GiB ,500ms", Budget(1e9, 4 << 30, 0.5)),
        ("1min", Budget(DEFAULT_BUDGET.flops, DEFAULT_BUDGET.bytes, 60)),
        ("0FLOP,0B,0s", Budget(0, 0, 0)),
    ],
)
def test_a_budget_names_what_it_changes(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "much", "3 apples", "1GFLOP,,2s", "-1s"])
def test_what_is_no_budget_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="500GFLOP,8GiB,30s"):
        parse_budget(text)


def test_a_cost_within_the_budget_is_no_excess() -> None:
    budget = Budget(1e9, 1 << 20, 1)
    assert budget.excess(1e9, 1 << 20) is None
    assert budget.excess(2e9, 0) == "needs more than the budget of 1.00 GFLOP"
    assert budget.excess(0, 2 << 20) == "writes more than the budget of 1.00 MiB"
