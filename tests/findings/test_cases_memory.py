"""The rules about one program's memory on the cases that name what they find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from answers import load_case
from running import Bench

OWN = {
    "over-the-limit", "near-the-limit", "not-donated", "donated-but-unusable", "tile-padding",
    "small-minor-dimension", "large-one-hot", "large-logits", "attention-scores", "saved-activations",
    "remat-without-effect",
}  # fmt: skip
NOT_SHOWN = "note"


def findings_of(bench: Bench, name: str) -> list[dict[str, Any]]:
    """What these rules find in a case's `step`, notes apart."""
    case = load_case(name)
    report = bench.folder / "report.json"
    checked = f"{case.program}:step"
    done = bench.vtpu("check", "--json", str(report), checked, "--on", case.topology)
    assert report.exists(), done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))["findings"]
    return [f for f in found if f["rule"] in OWN and f["severity"] != NOT_SHOWN]


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("donate-growing-cache", {"donated-but-unusable"}),
        ("donate-nothing", {"not-donated"}),
        ("donate-other-sharding", {"donated-but-unusable"}),
        ("hbm-adam-replicated", {"over-the-limit", "not-donated"}),
        ("hbm-arguments-alone", {"over-the-limit"}),
        ("hbm-attention-scores", {"over-the-limit", "attention-scores"}),
        ("hbm-prefill-logits", {"over-the-limit", "large-logits"}),
        ("pad-one-hot-classes", {"large-one-hot", "tile-padding"}),
        ("remat-scan-of-steps", {"saved-activations"}),
        pytest.param("hbm-scan-over-layers", {"saved-activations"}, marks=pytest.mark.slow),
        pytest.param("remat-saved-dots", {"saved-activations"}, marks=pytest.mark.slow),
        ("pad-gather-indices", set[str]()),
        ("offload-result-to-host", set[str]()),
        ("analysis-peak-is-not-hbm", set[str]()),
    ],
)
def test_a_case_has_its_findings_and_no_others(bench: Bench, name: str, rules: set[str]) -> None:
    assert {f["rule"] for f in findings_of(bench, name)} == rules


def test_where_nothing_can_be_computed_again_that_is_said(bench: Bench) -> None:
    (found,) = findings_of(bench, "hbm-arguments-alone")
    assert found["severity"] == "critical"
    assert "cannot help" in found["change"]


def test_an_input_that_a_script_uses_again_is_not_to_be_donated(bench: Bench) -> None:
    """Its earlier results die after each call and have its shape."""
    case = load_case("xfer-activations-to-host")
    report = bench.folder / "report.json"
    bench.vtpu("run", "--on", case.topology, "--json", str(report), str(case.program))
    found = json.loads(report.read_text(encoding="utf-8"))["findings"]
    assert "not-donated" not in {f["rule"] for f in found}
