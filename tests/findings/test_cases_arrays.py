"""Cases about arrays and programs that are in each other's way: the fault named there is found, at its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answers import load_case
from running import Bench
from vtpu.findings.finding import Severity
from vtpu.units import GIB, MIB

Found = dict[str, Any]


def checked(bench: Bench, name: str, function: str = "step") -> list[Found]:
    """What is found in a function of a case that is compiled alone."""
    case = load_case(name)
    report = bench.folder / "check.json"
    target = f"{case.program}:{function}"
    done = bench.vtpu("check", target, "--on", case.topology, "--json", str(report))
    assert report.exists(), done.stderr
    return json.loads(report.read_text(encoding="utf-8"))["findings"]


def ran(bench: Bench, name: str) -> list[Found]:
    """What is found in a case that is run whole."""
    case = load_case(name)
    bench.run(case.program, on=case.topology)
    return json.loads((bench.folder / "report.json").read_text(encoding="utf-8"))["findings"]


def the(found: list[Found], rule: str) -> Found:
    """The finding of a rule."""
    of_rule = [f for f in found if f["rule"] == rule]
    assert of_rule, [(f["severity"], f["title"]) for f in found]
    return of_rule[0]


def none_is_worse(found: list[Found], finding: Found, *allowed: str) -> None:
    """Nothing but faults that are there too is as bad as a finding, or worse."""
    worst = Severity[finding["severity"].upper()]
    others = {f["rule"] for f in found if Severity[f["severity"].upper()] >= worst}
    assert others <= {finding["rule"], *allowed}


def line_text(finding: Found) -> str:
    """The text of the line that a finding is at."""
    line = finding["line"]
    return Path(line["file"]).read_text(encoding="utf-8").split("\n")[line["line"] - 1]


def test_the_captured_table_is_named(bench: Bench) -> None:
    found = checked(bench, "recompile-captured-table")
    finding = the(found, "captured-constants")
    assert finding["severity"] == "medium"
    assert "table" in finding["title"]
    assert "return x @ table" in line_text(finding)
    none_is_worse(found, finding)


def test_the_history_of_outputs_leaks(bench: Bench) -> None:
    case = load_case("leak-history-of-outputs")
    found = ran(bench, "leak-history-of-outputs")
    finding = the(found, "leak")
    assert finding["severity"] == "medium"
    assert case.expected["line_contains"] in line_text(finding)
    assert finding["cost"]["hbm"]["value"] == 11 * case.expected["growth_bytes_per_step"]
    none_is_worse(found, finding)


def test_programs_that_leave_nothing_alive_do_not_leak(bench: Bench) -> None:
    found = ran(bench, "leak-one-program-per-shape")
    assert not {"leak", "never-used"} & {f["rule"] for f in found}


def test_holes_between_arrays_are_fragmentation(bench: Bench) -> None:
    found = ran(bench, "run-holes-between-arrays")
    finding = the(found, "fragmentation")
    assert finding["severity"] == "critical"
    assert "big = jnp.zeros" in line_text(finding)
    assert "no-room-for-program" not in {f["rule"] for f in found}
    none_is_worse(found, finding)


def test_a_program_that_fits_alone_has_no_room(bench: Bench) -> None:
    case = load_case("run-program-has-no-room")
    found = ran(bench, "run-program-has-no-room")
    finding = the(found, "no-room-for-program")
    assert finding["severity"] == "critical"
    short = case.expected["short_mib"] * MIB
    tolerance = case.expected["short_tolerance_mib"] * MIB
    assert abs(finding["cost"]["hbm"]["value"] - short) <= tolerance
    assert "12.00 GiB" in finding["title"]
    assert "fragmentation" not in {f["rule"] for f in found}
    none_is_worse(found, finding)


def test_what_is_created_on_one_device_is_critical_where_it_finds_no_room(bench: Bench) -> None:
    found = ran(bench, "shard-after-creating")
    finding = the(found, "created-on-one-device")
    assert finding["severity"] == "critical"
    assert "device=place" in finding["change"]
    assert "return jax.device_put(jnp.zeros" in line_text(finding)
    assert finding["cost"]["hbm"]["value"] == pytest.approx(13 * GIB, abs=4096)


def test_a_batch_left_whole_makes_devices_do_the_same(bench: Bench) -> None:
    case = load_case("shard-batch-left-whole")
    found = checked(bench, "shard-batch-left-whole")
    finding = the(found, "replicated-batch")
    assert finding["severity"] == "high"
    assert 'P("data", None)' in finding["change"]
    work = [e["amount"]["value"] for e in finding["evidence"] if e["what"] == "work of each device"]
    assert work[0] == pytest.approx(case.expected["flops_per_chip"], rel=0.01)
    none_is_worse(found, finding)
    assert "replicated-batch" not in {
        f["rule"] for f in checked(bench, "shard-batch-left-whole", "fixed")
    }


def test_replicated_adam_could_be_split(bench: Bench) -> None:
    found = checked(bench, "hbm-adam-replicated")
    finding = the(found, "replicated")
    assert finding["severity"] == "high"
    assert finding["cost"]["hbm"]["value"] == pytest.approx(18 * GIB * 7 / 8, rel=0.001)
    assert 'P(None, None, "data")' in finding["change"]
    fixed = {f["rule"] for f in checked(bench, "hbm-adam-replicated", "fixed")}
    assert not {"replicated", "optimizer-state", "gathered-result"} & fixed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vmem-no-grid", "grid and BlockSpecs"),
        ("vmem-kernel-for-newer-chip", "grid and BlockSpecs"),
        ("vmem-scratch-beyond-chip", "no limit helps"),
    ],
)
def test_a_kernel_that_does_not_fit_is_critical(bench: Bench, name: str, text: str) -> None:
    found = checked(bench, name)
    finding = the(found, "vmem-pressure")
    assert finding["severity"] == "critical"
    assert text in finding["change"]
    assert ("vmem_limit_bytes" in finding["change"]) == (name != "vmem-scratch-beyond-chip")
    assert "pallas_call" in line_text(finding)
    none_is_worse(found, finding)


def test_a_state_that_comes_back_whole_is_gathered(bench: Bench) -> None:
    found = checked(bench, "donate-other-sharding")
    finding = the(found, "gathered-result")
    assert finding["cost"]["hbm"]["value"] == 48 * MIB
    named = ('P("x", None)', "the sharding of s")  # older releases keep no names of axes
    assert any(name in finding["change"] for name in named)
    assert checked(bench, "donate-other-sharding", "fixed") == []
