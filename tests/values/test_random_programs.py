"""Whatever program it is: cut down to what is looked at, it gives what it gives as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from running import Bench

PROPERTY = Path(__file__).parent / "properties" / "random_programs.py"


@pytest.mark.parametrize("examples", [25, pytest.param(150, marks=pytest.mark.slow)])
def test_random_programs_cut_and_whole_agree(bench: Bench, examples: int) -> None:
    run = bench.run(PROPERTY, str(examples), VTPU_VALUES="auto", VTPU_VALUES_BUDGET="10min")
    run.succeeded("agree\n")
    assert run.summary.fabricated_values == ()
