"""What `vtpu.check` says of the cases with a verdict: it fits or not, and where the bytes are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answers import Case, all_cases
from running import Bench

CHECK = Path(__file__).parents[1] / "check_case.py"
LONG_COMPILES = {"hbm-batch-not-monotone", "hbm-scan-over-layers"}
TEMPORARIES = 0.1  # by which they differ between releases of the compiler


def questions() -> list[Any]:
    """Each case with a verdict on memory, with each topology that it was compiled for."""
    return [
        pytest.param(
            case,
            topology,
            id=f"{case.id}-{topology}",
            marks=[pytest.mark.slow] if case.id in LONG_COMPILES else [],
        )
        for case in all_cases()
        if "fits" in case.expected
        for topology in case.measured
    ]


@pytest.mark.parametrize(("case", "topology"), questions())
def test_the_verdict_and_the_bytes(bench: Bench, case: Case, topology: str) -> None:
    names = case.measured[topology]
    run = bench.run(CHECK, str(case.program), *names, on=topology)
    assert (run.exit_code, run.stderr) == (0, "")
    lines = [line for line in run.printed.split("\n") if line.startswith("{")]
    for found, expected in zip(map(json.loads, lines), names.values(), strict=True):
        assert_answer(found, expected)
        if case.breakdown and "error" in expected:
            assert_breakdown(found, case.breakdown)


def assert_answer(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The verdict is right, parts are the whole, and `memory_analysis()` says the same."""
    assert found["fits"] == ("error" not in expected)
    kinds = found["by_kind"]
    assert found["need_bytes"] in (None, sum(kinds.values()))
    assert found["at_peak_bytes"] + found["free_at_peak_bytes"] == sum(kinds.values())
    if not found["fits"]:
        assert "xceed" in found["error"]
        return
    arguments, outputs, alias = found["stats"]
    assert kinds.get("argument", 0) == arguments == expected["argument_bytes"]
    assert kinds.get("output", 0) == outputs - alias
    assert (outputs, alias) == (expected["output_bytes"], expected["alias_bytes"])


def assert_breakdown(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """What a program that does not fit would take, by kind, and its largest buffers."""
    kinds = found["by_kind"]
    assert kinds["argument"] == expected["parameters_bytes"]
    assert kinds["output"] == expected["results_bytes"] - expected["aliased_bytes"]
    allowed = TEMPORARIES * expected["temp_bytes"] + 2**16
    assert abs(found["need_bytes"] - expected["total_bytes"]) <= allowed
    for slot in expected["slot"]:
        assert slot["shape"] in found["largest"]
