"""Cases about transfers and compilations: the finding that each is about, and nothing false above it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from answers import load_case
from running import Bench, source_of
from vtpu.analysis.source_lines import SourceLine

_ORDER = ("note", "low", "medium", "high", "critical")
_RIGHT_TOO = {"not-donated"}  # what else may be said of a case, and is true


def findings_of(bench: Bench, name: str, **more: str) -> list[dict[str, Any]]:
    """What `vtpu run` finds in a case."""
    case = load_case(name)
    run = bench.run(case.program, on=case.topology, **more)
    assert run.exit_code == 0, run.stderr
    return json.loads((bench.folder / "report.json").read_text())["findings"]


def finding(found: list[dict[str, Any]], rule: str) -> dict[str, Any]:
    """The worst finding of a rule, of which there must be one that is shown; none but true ones is worse."""
    mine = next(f for f in found if f["rule"] == rule)
    rank = _ORDER.index(mine["severity"])
    assert rank > 0
    worse = {f["rule"] for f in found if _ORDER.index(f["severity"]) > rank}
    assert worse <= _RIGHT_TOO
    return mine


def line_text(found: dict[str, Any]) -> str:
    """The text of the line of a finding."""
    line = found["line"]
    return source_of(SourceLine(line["file"], line["line"], line["function"])).strip()


def test_a_python_number_in_eager_code(bench: Bench) -> None:
    found = finding(findings_of(bench, "xfer-python-scalar"), "implicit-host-to-device")

    assert line_text(found) == "x = x + 0.5"
    assert found["evidence"][0]["amount"]["value"] == 5


def test_activations_read_in_every_step(bench: Bench) -> None:
    found = finding(
        findings_of(bench, "xfer-activations-to-host", VTPU_VALUES="zeros"), "reads-in-loop"
    )

    assert "np.asarray(hidden)" in line_text(found)
    assert "32.00 MiB" in found["title"]
    assert "`hidden`" in found["change"]


def test_a_print_that_gathers(bench: Bench) -> None:
    found = finding(findings_of(bench, "xfer-debug-print-gathers"), "callback-in-loop")

    assert "512.00 MiB in temporaries where each had 64.00 MiB" in found["title"]
    assert found["cost"]["hbm"]["value"] == 448 << 20


@pytest.mark.parametrize(
    ("case", "rule", "says"),
    [
        ("recompile-jit-in-loop", "new-function", "the same program compiled again 6 times"),
        ("recompile-static-field", "static-argument", "(False,), (True,)"),
        ("recompile-weak-type", "weak-type", "average is a Python number"),
        ("donate-growing-cache", "dynamic-shapes", "6 sizes of dimension 1 of cache"),
        ("leak-one-program-per-shape", "dynamic-shapes", "60 sizes of dimension 0"),
    ],
)
def test_the_cause_of_a_recompile(bench: Bench, case: str, rule: str, says: str) -> None:
    found = finding(findings_of(bench, case), rule)

    assert says in found["title"]
    assert found["cost"]["once"]["value"] > 0


def test_a_growing_cache_should_be_allocated_whole(bench: Bench) -> None:
    found = finding(findings_of(bench, "donate-growing-cache"), "dynamic-shapes")

    assert "dynamic_update_slice" in found["change"]
    assert "1 program, 8% padding" in found["change"]


@pytest.mark.parametrize("case", ["input-timing-without-waiting", "leak-history-of-outputs"])
def test_nothing_is_said_of_transfers_and_compilations_where_all_is_well(
    bench: Bench, case: str
) -> None:
    found = findings_of(bench, case)

    ours = {"reads-in-loop", "implicit-host-to-device", "new-shapes", "many-tiny-programs"}
    assert not [f for f in found if f["rule"] in ours and f["severity"] != "note"]
